# The hash of a script as a page's content security policy names it, as a C string:
# cmake -DINPUT=x.js -DOUTPUT=x.c -DNAME=x_hash -P report_hash.cmake
cmake_minimum_required(VERSION 3.22)
set(digits "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
file(SHA256 "${INPUT}" hex)
string(APPEND hex "00") # 33 bytes are 44 digits, of which 43 say something
set(base64 "")
foreach(at RANGE 0 63 3)
    string(SUBSTRING ${hex} ${at} 3 part)
    math(EXPR high "0x${part} >> 6")
    math(EXPR low "0x${part} & 63")
    string(SUBSTRING ${digits} ${high} 1 first)
    string(SUBSTRING ${digits} ${low} 1 second)
    string(APPEND base64 "${first}${second}")
endforeach()
string(SUBSTRING "${base64}" 0 43 base64)
file(WRITE "${OUTPUT}" "extern const char ${NAME}[];
const char ${NAME}[] = \"sha256-${base64}=\";
")
