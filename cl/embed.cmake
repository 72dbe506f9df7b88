# SPDX-License-Identifier: Apache-2.0
# Turns files into C.
#   cmake -DINPUT=x.json -DOUTPUT=x.c -DNAME=x -P embed.cmake
#       makes the text of a file the array char x[]; of JSON the blanks between values are left out.
#   cmake -DKERNELS=a.cl;b.cl [-DSHORT=1] -DOUTPUT=x.c -P embed.cmake
#       makes each kernel a list ca_source_a[] of texts that ends with NULL. Joined they are the kernel with each
#       #include "folder/file" replaced by that file below cl/ or, if there is none, src/, each file once.
#       Kernels share the texts of a header. Comments, #pragma once and the blanks at both ends of a line are left out.
#       #line directives say the file and the line, so that build logs do. With SHORT=1 frequent words are characters
#       that no source has, which src/families/source.c reads: ca_source_words[] has the word of each.
cmake_minimum_required(VERSION 3.22)
set(folder "${CMAKE_CURRENT_LIST_DIR}")

# Frequent words, in the order in which they are replaced; none may hold "[" or "]", which CMake's lists do not bear.
set(words "const " "struct " "args->shape->" "int " "\n#define " "\;\n" "long " "float" "args" "\n\nINLINE "
    "arguments" "UNROLL\nfor (" "return " "tile" "__global " "block" "__local " "#endif\n" "SIMD_WIDTH" "rows"
    "\nstatic inline " "lane" ")\n{\n" "first" "if " "for (" "row" "keys" "BLOCK" "VECTORS" "stride" ") {\n" "void "
    "columns" "count" "=0\;" "sums" " __attribute__((reqd_work_group_size" "queries" "step" "column" "begin" "FRAGMENT"
    "#line " "THREADS" "bool " "LOCAL_BARRIER()" "STREAMED" "OPERAND" "head" "nonfinite" "++)\n" "scale" "part" "weight"
    "_of_" "place" "ushort" "end" "query" "_of(" "group" "word" "score" "VECTOR(" "pair" "exchange" "number" "products"
    "storage *" "load_" "LANE_QUERIES")
set(codes 1 2 3 4 5 6 7 8 11 12 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 128 129 130 131 132 133 134 135
    136 137 138 139 140 141 142 143 144 145 146 147 148 149 150 151 152 153 154 155 156
    157 158 159 160 161 162 163 164 165 166 167 168 169 170 171)

# The text with characters for words.
function(shorten text result)
    foreach(word code IN ZIP_LISTS words codes)
        string(ASCII ${code} character)
        string(REPLACE "${word}" "${character}" text "${text}")
    endforeach()
    set(${result} "${text}" PARENT_SCOPE)
endfunction()

# What stands between the braces of a char array that holds the text.
function(bytes_of text result)
    string(HEX "${text}" hex)
    string(REPEAT "[0-9a-f]" 32 line)
    string(REGEX REPLACE "(${line})" "\\1\n" bytes "${hex}")
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
    string(REGEX REPLACE "0x([89a-f].)" "'\\\\x\\1'" bytes "${bytes}") # a char may be signed
    set(${result} "${bytes}0" PARENT_SCOPE)
endfunction()

# Stops unless the text is plain ASCII.
function(check_ascii text file)
    string(HEX "${text}" hex)
    string(REGEX REPLACE "(..)" "\\1 " hex "${hex}")
    if("${hex} " MATCHES "(^| )[89a-f]")
        message(FATAL_ERROR "${file} is not plain ASCII")
    endif()
endfunction()

function(count_lines text result)
    string(REGEX REPLACE "[^\n]+" "" newlines "${text}")
    string(LENGTH "${newlines}" count)
    set(${result} ${count} PARENT_SCOPE)
endfunction()

# The text before the first `mark`, and the text after it.
function(cut text mark before after)
    string(FIND "${text}" "${mark}" at)
    string(SUBSTRING "${text}" 0 ${at} first)
    string(LENGTH "${mark}" length)
    math(EXPR at "${at} + ${length}")
    string(SUBSTRING "${text}" ${at} -1 rest)
    set(${before} "${first}" PARENT_SCOPE)
    set(${after} "${rest}" PARENT_SCOPE)
endfunction()

# The text without blanks around operators and behind commas, but for those in strings and those that keep two tokens
# apart: "a - -b", and "0xe - 1", which would be one number.
function(squeeze text result)
    set(squeezed "")
    while(NOT "${text}" STREQUAL "")
        set(literal "")
        set(code "${text}")
        set(text "")
        if("${code}" MATCHES "\"[^\"\n]*\"")
            set(literal "${CMAKE_MATCH_0}")
            cut("${code}" "${literal}" code text)
        endif()
        foreach(round RANGE 1) # neighbours share the letter between them
            string(REGEX REPLACE "([]A-Za-z0-9_)]) ([*/%<>=&|^?:]|[*/%<>=!&|]=|<<|>>|&&|[|][|]) ([A-Za-z0-9_(])"
                "\\1\\2\\3" code "${code}")
            string(REGEX REPLACE "([]A-DF-OQ-Za-df-oq-z0-9_)]) ([-+]=?) ([A-Za-z0-9_(])" "\\1\\2\\3" code "${code}")
        endforeach()
        string(REGEX REPLACE "([,;]) ([A-Za-z0-9_(])" "\\1\\2" code "${code}")
        string(APPEND squeezed "${code}${literal}")
    endwhile()
    set(${result} "${squeezed}" PARENT_SCOPE)
endfunction()

# The text without comments and needless blanks, with each line where it was.
function(strip file text result)
    set(stripped "")
    while("${text}" MATCHES "/\\*")
        cut("${text}" "/*" before text)
        cut("${text}" "*/" comment text)
        if("${comment}" MATCHES "\n" AND NOT "${text}" MATCHES "^[ \t]*\n")
            message(FATAL_ERROR "${file}: code follows a comment of several lines on its last one")
        endif()
        string(REGEX REPLACE "[^\n]+" "" newlines "${comment}")
        string(APPEND stripped "${before} ${newlines}")
    endwhile()
    set(text "${stripped}${text}")
    squeeze("${text}" text)
    string(REGEX REPLACE "[ \t]+\n" "\n" text "${text}")
    string(REGEX REPLACE "\n[ \t]+" "\n" text "${text}")
    string(REGEX REPLACE "[ \t]+\\\\\n" " \\\\\n" text "${text}")
    set(${result} "${text}" PARENT_SCOPE)
endfunction()

# Adds the part of a file that begins at a line as a text. A compiler that skipped the #include before it has
# skipped the #line at the begin of the text as well: so each end of a group that the #include may be in gets one.
function(add_text file line text list)
    if("${text}" MATCHES "^\n+")
        string(LENGTH "${CMAKE_MATCH_0}" blank)
        math(EXPR line "${line} + ${blank}")
        string(SUBSTRING "${text}" ${blank} -1 text)
    endif()
    if("${text}" STREQUAL "")
        return()
    endif()
    set(numbered "#line ${line} \"${file}\"\n")
    set(depth 0)
    set(least 0)
    while("${text}" MATCHES "(^|\n)(#(if|el|endif)(\\\\\n|[^\n])*\n)")
        set(directive "${CMAKE_MATCH_2}")
        set(kind "${CMAKE_MATCH_3}")
        cut("${text}" "${directive}" before text)
        string(APPEND numbered "${before}${directive}")
        count_lines("${before}${directive}" count)
        math(EXPR line "${line} + ${count}")
        if(kind STREQUAL "if")
            math(EXPR depth "${depth} + 1")
        elseif(kind STREQUAL "endif")
            math(EXPR depth "${depth} - 1")
        endif()
        if(depth LESS least OR (kind STREQUAL "el" AND depth EQUAL least))
            set(least ${depth})
            if(NOT "${text}" MATCHES "^[\n]*$")
                string(APPEND numbered "#line ${line} \"${file}\"\n")
            endif()
        endif()
    endwhile()
    get_property(number GLOBAL PROPERTY num_texts)
    string(PREPEND text "${numbered}")
    check_ascii("${text}" "${file}")
    if(SHORT)
        shorten("${text}" text)
    endif()
    bytes_of("${text}" bytes)
    set_property(GLOBAL APPEND_STRING PROPERTY texts
        "/* ${file} */\nstatic const char text_${number}[] = {\n${bytes}};\n")
    set(${list} "${${list}};${number}" PARENT_SCOPE)
    math(EXPR number "${number} + 1")
    set_property(GLOBAL PROPERTY num_texts ${number})
endfunction()

# The parts of a file: numbers of texts, and names of the files that it includes between them.
function(parts_of file result)
    get_property(known GLOBAL PROPERTY "parts of ${file}" SET)
    if(NOT known)
        set(path "${folder}/${file}")
        if(NOT EXISTS "${path}")
            set(path "${folder}/../src/${file}")
        endif()
        file(READ "${path}" text)
        strip("${file}" "${text}" text)
        string(REPLACE "#pragma once\n" "\n" text "${text}") # join() adds each file once
        set(parts "")
        set(line 1)
        while("${text}" MATCHES "#include \"([^\"]+)\"\n")
            set(directive "${CMAKE_MATCH_0}")
            set(included "${CMAKE_MATCH_1}")
            cut("${text}" "${directive}" before text)
            add_text("${file}" ${line} "${before}" parts)
            list(APPEND parts "${included}")
            count_lines("${before}${directive}" count)
            math(EXPR line "${line} + ${count}")
        endwhile()
        add_text("${file}" ${line} "${text}" parts)
        set_property(GLOBAL PROPERTY "parts of ${file}" "${parts}")
    endif()
    get_property(parts GLOBAL PROPERTY "parts of ${file}")
    set(${result} "${parts}" PARENT_SCOPE)
endfunction()

# Adds the texts of a file and of what it includes, but for what was `seen`.
function(join file)
    get_property(seen GLOBAL PROPERTY seen)
    if("${file}" IN_LIST seen)
        return()
    endif()
    set_property(GLOBAL APPEND PROPERTY seen "${file}")
    parts_of("${file}" parts)
    foreach(part IN LISTS parts)
        if(part MATCHES "^[0-9]+$")
            set_property(GLOBAL APPEND_STRING PROPERTY list "    text_${part},\n")
        else()
            join("${part}")
        endif()
    endforeach()
endfunction()

if(INPUT)
    get_filename_component(name "${INPUT}" NAME)
    file(READ "${INPUT}" text)
    if(name MATCHES "\\.json$")
        string(REGEX REPLACE "\n *" "" text "${text}")
        string(REPLACE "\": " "\":" text "${text}")
    endif()
    check_ascii("${text}" "${name}")
    bytes_of("${text}" bytes)
    file(WRITE "${OUTPUT}" "/* Made from ${name} by cl/embed.cmake. */
extern const char ${NAME}[];
const char ${NAME}[] = {
${bytes}};
")
    return()
endif()
set(sources "")
set_property(GLOBAL PROPERTY num_texts 0)
foreach(kernel IN LISTS KERNELS)
    get_filename_component(name "${kernel}" NAME_WE)
    file(RELATIVE_PATH file "${folder}" "${kernel}")
    string(REGEX REPLACE "^\\.\\./src/" "" file "${file}")
    set_property(GLOBAL PROPERTY seen "")
    set_property(GLOBAL PROPERTY list "")
    join("${file}")
    get_property(list GLOBAL PROPERTY list)
    string(APPEND sources "extern const char *const ca_source_${name}[];
const char *const ca_source_${name}[] = {\n${list}    0};\n")
endforeach()
if(SHORT)
    foreach(word code IN ZIP_LISTS words codes)
        bytes_of("${word}" bytes)
        string(REPLACE "\n" "" bytes "${bytes}")
        string(APPEND sources "static const char word_${code}[] = {${bytes}};\n")
        string(APPEND table "    [${code}] = word_${code},\n")
    endforeach()
    string(APPEND sources "extern const char *const ca_source_words[];\nconst char *const ca_source_words[256] = {\n${table}};\n")
endif()
get_property(texts GLOBAL PROPERTY texts)
file(WRITE "${OUTPUT}" "/* Made from kernels by cl/embed.cmake. */\n${texts}${sources}")
