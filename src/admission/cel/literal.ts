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

const BEYOND_ASCII = /[^\0-\x7f]+/g;

/** The library makes one byte of each character; beyond ASCII bytes are the UTF-8 of what is written. */
function bytesOf({ input, start, end }: LiteralNode, bytes: Uint8Array): Uint8Array {
  const written = input.slice(start, end).match(BEYOND_ASCII);
  if (written === null) return bytes;
  // As many units as characters were cut to a byte each; escapes are ASCII and keep their order between them.
  let text = Buffer.from(bytes).toString('latin1');
  let from = 0;
  for (const run of written) {
    const cut = Buffer.from(Array.from(run, (_, index) => run.charCodeAt(index) & 0xff)).toString('latin1');
    const at = text.indexOf(cut, from);
    const utf8 = Buffer.from(run).toString('latin1');
    text = text.slice(0, at) + utf8 + text.slice(at + cut.length);
    from = at + utf8.length;
  }
  return new Uint8Array(Buffer.from(text, 'latin1'));
}
