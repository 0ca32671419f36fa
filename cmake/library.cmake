# libwarpgroup, shared and static, out of the objects of every stop; install rules; pkg-config and
# CMake package files. Only what carries WG_API is visible from outside (-fvisibility=hidden), and
# what static third parties define stays inside (--exclude-libs,ALL). Before 1.0 any layout change
# of the public header moves the soname.
set(WG_STOPS base corpus tokenizer engine backend model task output job)

set(WG_OBJECTS)
set(WG_STOP_TARGETS)
foreach(stop ${WG_STOPS})
    get_property(targets DIRECTORY ${CMAKE_SOURCE_DIR}/src/${stop} PROPERTY BUILDSYSTEM_TARGETS)
    foreach(target ${targets})
        if(target MATCHES "^wgi_")
            list(APPEND WG_OBJECTS $<TARGET_OBJECTS:${target}>)
            list(APPEND WG_STOP_TARGETS ${target})
        endif()
    endforeach()
endforeach()

# What the stops link besides each other: names for pkg-config --static and the CMake package.
set(WG_SYSTEM_LIBRARIES utf8proc z)
if(WG_LIBXSMM)
    list(APPEND WG_SYSTEM_LIBRARIES xsmm xsmmnoblas)
endif()
list(APPEND WG_SYSTEM_LIBRARIES ${CMAKE_DL_LIBS} m pthread)

add_library(warpgroup_shared SHARED ${WG_OBJECTS})
set_target_properties(warpgroup_shared PROPERTIES OUTPUT_NAME warpgroup EXPORT_NAME warpgroup
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
    LINKER_LANGUAGE C)
target_link_options(warpgroup_shared PRIVATE -Wl,--exclude-libs,ALL)
if(NOT WG_SANITIZE AND NOT WG_FUZZ)
    target_link_options(warpgroup_shared PRIVATE -Wl,--no-undefined)
endif()
target_link_libraries(warpgroup_shared PRIVATE ${WG_SYSTEM_LIBRARIES})
target_include_directories(warpgroup_shared INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)

add_library(warpgroup_static STATIC ${WG_OBJECTS})
set_target_properties(warpgroup_static PROPERTIES OUTPUT_NAME warpgroup LINKER_LANGUAGE C)
target_link_libraries(warpgroup_static INTERFACE ${WG_SYSTEM_LIBRARIES})
target_include_directories(warpgroup_static INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)

# Both depend on the stops, so that generated headers and the like come first.
add_dependencies(warpgroup_shared ${WG_STOP_TARGETS})
add_dependencies(warpgroup_static ${WG_STOP_TARGETS})

list(TRANSFORM WG_SYSTEM_LIBRARIES PREPEND "-l" OUTPUT_VARIABLE WG_PRIVATE_LIBRARIES)
list(JOIN WG_PRIVATE_LIBRARIES " " WG_PRIVATE_LIBRARIES)
file(RELATIVE_PATH WG_PREFIX_FROM_PC /p/${CMAKE_INSTALL_LIBDIR}/pkgconfig /p)
configure_file(cmake/warpgroup.pc.in warpgroup.pc @ONLY)

include(CMakePackageConfigHelpers)
set(WG_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/warpgroup)
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/warpgroupConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(TARGETS warpgroup_shared warpgroup_static EXPORT warpgroupTargets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT warpgroupTargets NAMESPACE warpgroup:: DESTINATION ${WG_PACKAGE_DIR})
install(FILES cmake/warpgroupConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/warpgroupConfigVersion.cmake
        DESTINATION ${WG_PACKAGE_DIR})
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/warpgroup.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(DIRECTORY include/warpgroup DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES docs/warpgroup.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES LICENSE DEPENDENCIES.md README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
