# Turns a kernel into a C array: cmake -DINPUT=x.cl -DOUTPUT=x.c -DNAME=ca_source_x -P embed.cmake
# Lines #include "folder/file" are replaced by that file below cl/ or, if there is none, src/, each file
# once.
cmake_minimum_required(VERSION 3.22)
set(folder "${CMAKE_CURRENT_LIST_DIR}")
get_filename_component(input_name "${INPUT}" NAME)
set_property(GLOBAL PROPERTY embed_seen "")

function(embed_expand file result)
    get_property(seen GLOBAL PROPERTY embed_seen)
    if("${file}" IN_LIST seen)
        set(${result} "" PARENT_SCOPE)
        return()
    endif()
    set_property(GLOBAL APPEND PROPERTY embed_seen "${file}")
    if(NOT EXISTS "${file}")
        string(REPLACE "${folder}/" "${folder}/../src/" file "${file}")
    endif()
    file(READ "${file}" rest)
    set(text "")
    while("${rest}" MATCHES "#include \"([^\"]+)\"\n")
        set(included "${CMAKE_MATCH_1}")
        set(line "${CMAKE_MATCH_0}")
        string(FIND "${rest}" "${line}" at)
        string(SUBSTRING "${rest}" 0 ${at} before)
        string(LENGTH "${line}" length)
        math(EXPR at "${at} + ${length}")
        string(SUBSTRING "${rest}" ${at} -1 rest)
        embed_expand("${folder}/${included}" inner)
        string(APPEND text "${before}" "${inner}")
    endwhile()
    set(${result} "${text}${rest}" PARENT_SCOPE)
endfunction()

embed_expand("${INPUT}" text)
file(WRITE "${OUTPUT}.txt" "${text}")
file(READ "${OUTPUT}.txt" hex HEX)
file(REMOVE "${OUTPUT}.txt")
string(REPEAT "[0-9a-f]" 32 line)
string(REGEX REPLACE "(${line})" "\\1\n" bytes "${hex}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
if("${bytes}" MATCHES "0x[89a-f]")
    message(FATAL_ERROR "${input_name} or what it includes is not plain ASCII")
endif()
file(WRITE "${OUTPUT}" "/* Made from ${input_name} by cl/embed.cmake. */
extern const char ${NAME}[];
const char ${NAME}[] = {
${bytes}0};
")
