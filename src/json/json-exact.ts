import { endOfString } from './json-scan.ts';
import { setOwn } from './objects.ts';

/** An unfinished container. Its values are JSON: `parseJson` adds the type. */
type OpenContainer = unknown[] | Record<string, unknown>;

const NUMBER = /-?[\d.eE+]+(?:-\d+)?/y;
const INTEGER = /^-?\d+$/;
/** An int64 has at most 19 digits and a sign. */
const MAX_INT64_LENGTH = 20;

/**
 * Builds the value of `text`, which must be valid JSON, and keeps every int64 exact.
 *
 * A reviver with `context.source` would give the same result, but V8 calls revivers recursively and overflows the stack
 * some thousand levels deep. JSON.parse itself works there. This parser keeps its open containers in a list.
 */
export function parseExact(text: string): unknown {
  const open: OpenContainer[] = [];
  let root: unknown = null;
  let key: string | undefined; // the last key of the innermost object, still without its value

  function add(value: unknown): void {
    const container = open.at(-1);
    if (container === undefined) root = value;
    else if (Array.isArray(container)) container.push(value);
    else setOwn(container, key ?? '', value);
    key = undefined;
  }

  function enter(container: OpenContainer): void {
    add(container);
    open.push(container);
  }

  let at = 0;
  while (at < text.length) {
    switch (text.charAt(at)) {
      case '{':
        enter({});
        at += 1;
        break;
      case '[':
        enter([]);
        at += 1;
        break;
      case '}':
      case ']':
        open.pop();
        at += 1;
        break;
      case '"': {
        const end = endOfString(text, at) + 1;
        const value = stringOf(text.slice(at, end));
        const container = open.at(-1);
        if (container === undefined || Array.isArray(container) || key !== undefined) add(value);
        else key = value;
        at = end;
        break;
      }
      case 't':
        add(true);
        at += 'true'.length;
        break;
      case 'f':
        add(false);
        at += 'false'.length;
        break;
      case 'n':
        add(null);
        at += 'null'.length;
        break;
      case ',':
      case ':':
      case ' ':
      case '\t':
      case '\n':
      case '\r':
        at += 1;
        break;
      default: {
        const token = numberAt(text, at);
        add(numberOf(token));
        at += token.length;
      }
    }
  }
  return root;
}

function stringOf(quoted: string): string {
  return quoted.includes('\\') ? String(JSON.parse(quoted)) : quoted.slice(1, -1);
}

function numberAt(text: string, at: number): string {
  NUMBER.lastIndex = at;
  const token = NUMBER.exec(text)?.[0];
  if (token === undefined) throw new SyntaxError(`not JSON: unexpected ${text[at] ?? 'end'} at ${at}`);
  return token;
}

/** Parses a number as the API server does: an integer that fits is an int64, every other number is a double. */
function numberOf(token: string): number | bigint {
  const number = Number(token);
  if (Number.isSafeInteger(number) || token.length > MAX_INT64_LENGTH || !INTEGER.test(token)) return number;
  const integer = BigInt(token);
  return BigInt.asIntN(64, integer) === integer ? integer : number;
}
