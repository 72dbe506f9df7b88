# SPDX-License-Identifier: Apache-2.0
# cpack -G DEB makes libclattn0.1, libclattn-dev, clattn-tools and, with an MPI, libclattn-mpi0.1 and
# libclattn-mpi-dev of a build with the prefix /usr, and
# cpack -G TGZ --config CPackSourceConfig.cmake the tarball of the sources.

set(CPACK_PACKAGE_NAME clattn)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
# Who makes packages is their maintainer, as for Debian's own tools; without a name the packages are for
# trials, and the address says that it is none.
set(contact "clattn's maintainers <maintainers@clattn.example>")
if(DEFINED ENV{DEBEMAIL} AND DEFINED ENV{DEBFULLNAME})
    set(contact "$ENV{DEBFULLNAME} <$ENV{DEBEMAIL}>")
endif()
set(CLATTN_CONTACT "${contact}" CACHE STRING
    "Who maintains the packages that are made, a name and an address: by default $DEBFULLNAME <$DEBEMAIL>")
set(CPACK_PACKAGE_CONTACT "${CLATTN_CONTACT}")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "attention for every OpenCL device")
set(CPACK_RESOURCE_FILE_LICENSE "${PROJECT_SOURCE_DIR}/LICENSE")
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL runtime development tools)
if(TARGET clattn_mpi)
    list(APPEND CPACK_COMPONENTS_ALL mpi mpi-development)
endif()
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ
    GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)

# ---- Debian -------------------------------------------------------------------------------------

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS "${CMAKE_BINARY_DIR}")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(version "${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE}")

set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME libclattn${CLATTN_SOVERSION})
set(CPACK_COMPONENT_RUNTIME_DESCRIPTION
    "the library\nComputes softmax(QK^T)V, its gradients and multi-head layers on any\nOpenCL GPU or CPU, with tiled kernels that are specialised to the\nproblem.")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_RECOMMENDS "pocl-opencl-icd | opencl-icd")
file(WRITE "${CMAKE_BINARY_DIR}/packages/triggers" "activate-noawait ldconfig\n")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_CONTROL_EXTRA "${CMAKE_BINARY_DIR}/packages/triggers")

set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libclattn-dev)
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION
    "headers, examples and the static library\nFor programs that call clattn: C headers, pkg-config and CMake files,\nnumbered examples, and pages on tuning, measuring and serving.")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS
    "libclattn${CLATTN_SOVERSION} (= ${version}), ocl-icd-opencl-dev | opencl-dev")

set(CPACK_DEBIAN_MPI_PACKAGE_NAME libclattn-mpi${CLATTN_SOVERSION})
set(CPACK_COMPONENT_MPI_DESCRIPTION
    "attention over the ranks of an MPI communicator\nShards of a sequence on several devices and machines: ring attention\nand all-to-all, forward and backward, on top of libclattn.")
set(CPACK_DEBIAN_MPI_PACKAGE_CONTROL_EXTRA "${CMAKE_BINARY_DIR}/packages/triggers")

set(CPACK_DEBIAN_MPI-DEVELOPMENT_PACKAGE_NAME libclattn-mpi-dev)
set(CPACK_COMPONENT_MPI-DEVELOPMENT_DESCRIPTION
    "header of libclattn_mpi\nFor programs that compute attention over MPI by clattn.")
set(CPACK_DEBIAN_MPI-DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_MPI-DEVELOPMENT_PACKAGE_DEPENDS
    "libclattn-mpi${CLATTN_SOVERSION} (= ${version}), libclattn-dev (= ${version}), mpi-default-dev")

set(CPACK_DEBIAN_TOOLS_PACKAGE_NAME clattn-tools)
set(CPACK_COMPONENT_TOOLS_DESCRIPTION
    "clattn-bench and clattn-tune\nclattn-bench verifies and measures attention kernels on an OpenCL\ndevice, beside other libraries where they are installed; clattn-tune\nfinds the fastest for a device and keeps them.")
set(CPACK_DEBIAN_TOOLS_PACKAGE_SECTION utils)
set(CPACK_DEBIAN_TOOLS_PACKAGE_SUGGESTS "python3-torch, python3-numpy")

# Each package's copyright and changelogs, which only packages have.
find_program(GZIP gzip)
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)
set(folder "${CMAKE_BINARY_DIR}/packages")
file(WRITE "${folder}/changelog.Debian" "clattn (${version}) unstable; urgency=medium

  * As changelog.gz says.

 -- ${CPACK_PACKAGE_CONTACT}  ${date}
")
file(COPY "${PROJECT_SOURCE_DIR}/CHANGELOG.md" DESTINATION "${folder}")
file(RENAME "${folder}/CHANGELOG.md" "${folder}/changelog")
file(WRITE "${folder}/copyright" "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: clattn

Files: *
Copyright: 2026 clattn's authors
License: Apache-2.0
 On Debian systems the text of the license is in /usr/share/common-licenses/Apache-2.0.
")
if(GZIP)
    foreach(name changelog changelog.Debian)
        execute_process(COMMAND "${GZIP}" -9nf "${folder}/${name}")
    endforeach()
    foreach(name IN LISTS CPACK_COMPONENTS_ALL)
        string(TOUPPER ${name} component)
        install(FILES "${folder}/copyright" "${folder}/changelog.gz" "${folder}/changelog.Debian.gz"
            DESTINATION "${CMAKE_INSTALL_DATAROOTDIR}/doc/${CPACK_DEBIAN_${component}_PACKAGE_NAME}"
            COMPONENT ${name} EXCLUDE_FROM_ALL)
    endforeach()
endif()

# Manual pages are compressed there as well.
file(WRITE "${folder}/compress.cmake" "file(GLOB_RECURSE pages \"\${CPACK_TEMPORARY_INSTALL_DIRECTORY}/*.[13]\")
list(FILTER pages INCLUDE REGEX \"/man/man[13]/\") # a library's name may end so, too
foreach(page IN LISTS pages)
    execute_process(COMMAND \"${GZIP}\" -9nf \"\${page}\")
endforeach()
")
set(CPACK_PRE_BUILD_SCRIPTS "${folder}/compress.cmake")

# ---- sources ------------------------------------------------------------------------------------

set(CPACK_SOURCE_GENERATOR TGZ)
set(CPACK_SOURCE_PACKAGE_FILE_NAME clattn-${PROJECT_VERSION})
set(CPACK_SOURCE_IGNORE_FILES "/[.]git/" "/[.]git$" "/build/" "/build-" "/shared/" "/__pycache__/"
    "/dist/")

include(CPack)
