# Puts a page's style and scripts into its template, and the hash of the script, which lets a browser
# run it and nothing else: cmake -DFOLDER=bench/report -DOUTPUT=x.html -P report_template.cmake
cmake_minimum_required(VERSION 3.22)
file(READ "${FOLDER}/report_charts.js" charts)
file(READ "${FOLDER}/report.js" script)
string(PREPEND script "${charts}")
file(READ "${FOLDER}/report.css" style)
file(READ "${FOLDER}/report.html" page)

# SHA-256 in base 64: 33 bytes are 44 digits, of which 43 say something.
string(SHA256 hex "${script}")
string(APPEND hex "00")
set(digits "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
set(hash "")
foreach(at RANGE 0 63 3)
    string(SUBSTRING ${hex} ${at} 3 part)
    math(EXPR high "0x${part} >> 6")
    math(EXPR low "0x${part} & 63")
    string(SUBSTRING ${digits} ${high} 1 first)
    string(SUBSTRING ${digits} ${low} 1 second)
    string(APPEND hash "${first}${second}")
endforeach()
string(SUBSTRING "${hash}" 0 43 hash)

string(REPLACE "@STYLE@" "${style}" page "${page}")
string(REPLACE "@HASH@" "${hash}=" page "${page}")
string(REPLACE "@SCRIPT@" "${script}" page "${page}")
file(WRITE "${OUTPUT}" "${page}")
