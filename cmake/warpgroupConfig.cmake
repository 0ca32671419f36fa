# find_package(warpgroup): targets warpgroup::warpgroup (shared) and warpgroup::warpgroup_static.
include("${CMAKE_CURRENT_LIST_DIR}/warpgroupTargets.cmake")
