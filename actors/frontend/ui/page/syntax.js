// Colours one line of source text: a list of [class, text]. It knows comments,
// strings, numbers and words of a few families of languages, and no more.

const C = ["//"], HASH = ["#"], DASH = ["--"];
const words = (t) => new Set(t.split(" "));
const JS = words("as async await break case catch class const continue default delete do else export extends false finally for from function get if import in instanceof interface let new null of return set static super switch this throw true try type typeof undefined var void while yield enum implements");
const GO = words("break case chan const continue default defer else fallthrough false for func go goto if import interface iota map nil package range return select struct switch true type var");
const PY = words("and as assert async await break class continue def del elif else except False finally for from global if import in is lambda None nonlocal not or pass raise return True try while with yield match case self");
const RS = words("as async await break const continue crate dyn else enum extern false fn for if impl in let loop match mod move mut pub ref return self Self static struct super trait true type unsafe use where while");
const CC = words("auto bool break case catch char class const constexpr continue default delete do double else enum explicit extern false final float for friend if include inline int long namespace new nullptr operator override private protected public return short signed sizeof static struct switch template this throw true try typedef typename union unsigned using virtual void volatile while abstract boolean byte extends finally implements import instanceof interface native package super synchronized throws var val fun when null");
const SH = words("if then else elif fi for while until do done case esac in function return local export set unset exit shift source trap echo cd");
const RB = words("begin break case class def do else elsif end ensure false for if in module next nil not or redo rescue retry return self super then true undef unless until when while yield require");
const SQL = words("select from where insert into update delete create table drop alter index join left right inner outer on and or not null primary key values set group by order limit as distinct union SELECT FROM WHERE INSERT INTO UPDATE DELETE CREATE TABLE DROP ALTER INDEX JOIN LEFT RIGHT INNER OUTER ON AND OR NOT NULL PRIMARY KEY VALUES SET GROUP BY ORDER LIMIT AS DISTINCT UNION");
const DATA = words("true false null yes no on off");

const KINDS = new Map();
const kind = (exts, line, keys) => exts.split(" ").forEach((e) => KINDS.set(e, { line, keys, block: line === C }));
kind("js mjs cjs jsx ts tsx", C, JS);
kind("go", C, GO);
kind("rs", C, RS);
kind("c h cc cpp hpp cxx java kt cs swift scala dart php proto", C, CC);
kind("css scss less", C, new Set());
kind("py pyi", HASH, PY);
kind("sh bash zsh mk makefile dockerfile", HASH, SH);
kind("rb", HASH, RB);
kind("json yaml yml toml ini conf cfg", HASH, DATA);
kind("sql lua hs", DASH, SQL);

export function language(path) {
  const name = path.slice(path.lastIndexOf("/") + 1).toLowerCase();
  return KINDS.get(name.slice(name.lastIndexOf(".") + 1)) ?? KINDS.get(name) ?? null;
}

const TOKEN = /\/\*.*?(?:\*\/|$)|"(?:\\.|[^"\\])*"?|'(?:\\.|[^'\\])*'?|`(?:\\.|[^`\\])*`?|\/\/|--|#|[A-Za-z_$][\w$]*|\d[\w.]*|[^\w"'`/#$-]+|./g;

// MOST is how much of a line is coloured.
const MOST = 2000;

export function colour(text, lang) {
  if (!lang || text.length > MOST) return [["", text]];
  const out = [];
  const put = (cls, t) => {
    const last = out[out.length - 1];
    if (last && last[0] === cls) last[1] += t;
    else out.push([cls, t]);
  };
  TOKEN.lastIndex = 0;
  for (let m; (m = TOKEN.exec(text)); ) {
    const t = m[0];
    if (lang.line.includes(t)) {
      put("t-com", text.slice(m.index));
      break;
    }
    if (lang.block && t.startsWith("/*")) put("t-com", t);
    else if (/^["'`]/.test(t)) put("t-str", t);
    else if (/^\d/.test(t)) put("t-num", t);
    else if (lang.keys.has(t)) put("t-key", t);
    else put("", t);
  }
  return out;
}
