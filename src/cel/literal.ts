import type { ASTNode } from '@marcbachmann/cel-js';
import type { CelError } from './cel-error.ts';
import type { Expression } from './expression.ts';
import { uint } from './values.ts';

type LiteralNode = Extract<ASTNode, { readonly op: 'value' }>;
type Fail = (message: string, at: number) => CelError;

const MOST_INT = 2n ** 63n - 1n;

/** A literal of the parsed expression; one with a minus before it is that number, so that the least int can be written. */
export function literalOf(node: LiteralNode, minusAt: number | undefined, fail: Fail): Expression {
  const at = minusAt ?? node.start;
  return { kind: 'literal', value: valueOf(node, minusAt !== undefined, at, fail), at };
}

function valueOf(node: LiteralNode, negative: boolean, at: number, fail: Fail): unknown {
  const value = node.args;
  if (typeof value === 'bigint') {
    if (value > (negative ? MOST_INT + 1n : MOST_INT)) throw fail('invalid int literal', at);
    return negative ? -value : value;
  }
  if (typeof value === 'number') return negative ? -value : value;
  if (typeof value !== 'object' || value === null) return value;
  return value instanceof Uint8Array ? bytesOf(node, value) : uint(value.value);
}

const BEYOND_ASCII = /[^\0-\x7f]/;
/** An escape, which is one byte, or a character as it is. */
const WRITTEN = /\\(?:[xX][0-9a-fA-F]{2}|[0-7]{3}|.)|./gsu;

/** The library makes one byte of each UTF-16 unit; beyond ASCII bytes are the UTF-8 of what is written. */
function bytesOf({ input, start, end }: LiteralNode, bytes: Uint8Array): Uint8Array {
  const quoted = input.slice(start + 1, end);
  if (!BEYOND_ASCII.test(quoted)) return bytes;
  const quotes = /^(?:"""|'''|["'])/.exec(quoted)?.[0].length ?? 0;
  const parts: Uint8Array[] = [];
  let unit = 0;
  for (const [written] of quoted.slice(quotes, -quotes).matchAll(WRITTEN)) {
    const units = written.startsWith('\\') ? 1 : written.length;
    parts.push(BEYOND_ASCII.test(written) ? Buffer.from(written) : bytes.subarray(unit, unit + units));
    unit += units;
  }
  return new Uint8Array(Buffer.concat(parts));
}
