# SPDX-License-Identifier: Apache-2.0
# An overlay port of the clone that it lies in: vcpkg install clattn --overlay-ports=packaging/vcpkg
get_filename_component(SOURCE_PATH "${CURRENT_PORT_DIR}/../../.." ABSOLUTE)
vcpkg_check_features(OUT_FEATURE_OPTIONS options FEATURES
    tools CLATTN_BUILD_BENCH
    tools CLATTN_BUILD_TUNER)
vcpkg_cmake_configure(SOURCE_PATH "${SOURCE_PATH}"
    OPTIONS ${options} -DCLATTN_BUILD_TESTS=OFF -DCLATTN_BUILD_MAN=OFF -DCLATTN_BUILD_MPI=OFF)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/clattn)
vcpkg_fixup_pkgconfig()
if("tools" IN_LIST FEATURES)
    vcpkg_copy_tools(TOOL_NAMES clattn-bench clattn-tune AUTO_CLEAN)
endif()
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share"
    "${CURRENT_PACKAGES_DIR}/debug/libexec" "${CURRENT_PACKAGES_DIR}/libexec")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
