# SPDX-License-Identifier: Apache-2.0
"""python3 doc/sentences.py [SEED]: draws sixty comments and sentences, to be judged by a reader: 20 comments of src, 20 of kernels,
14 sentences of doc and 6 of README.md."""
import random
import re
import subprocess
import sys

random.seed(int(sys.argv[1]) if len(sys.argv) > 1 else 1)




def files(*pats):
    return subprocess.check_output(['git','ls-files',*pats],text=True).split()


def comments(fs):
    out=[]
    for f in fs:
        t=open(f,errors='replace').read()
        for m in re.findall(r'/\*+(.*?)\*/',t,flags=re.S):
            c=' '.join(re.sub(r'^\s*\*','',l).strip() for l in m.split('\n')).strip()
            if len(c.split())>=5 and 'SPDX' not in c: out.append((f,c[:400]))
    return out


def sentences(fs):
    out=[]
    for f in fs:
        t=re.sub(r'```.*?```','',open(f).read(),flags=re.S)
        t='\n'.join(l for l in t.split('\n') if not l.startswith(('    ','|','#')))
        for s in re.split(r'(?<=[.!?])\s+',t.replace('\n',' ')):
            if len(s.split())>=5: out.append((f,s.strip()[:400]))
    return out
src=comments(files('src/*.c','src/*.h'))
cl=comments(files('cl/*.h','cl/*.cl','src/families/*/*.cl'))
for name,pool,n in (('src',src,20),('cl',cl,20),('doc',sentences(files('doc/*.md')),14),('readme',sentences(['README.md']),6)):
    for f,c in random.sample(pool,n): print(name,f.split('/')[-1],'|',c)
