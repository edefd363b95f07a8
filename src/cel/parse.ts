import { type ASTNode, Environment, ParseError } from '@marcbachmann/cel-js';
import { CelError } from './cel-error.ts';
import type { Expression } from './expression.ts';
import { literalOf } from './literal.ts';
import { expandMacro, type MacroContext, type ParsedCall } from './macros.ts';
import { liftOptionalItems } from './optional-items.ts';
import { nextToken, positionOf } from './source.ts';

/** Expressions come from users: deeper or longer ones are refused when they are compiled, not when they run. */
const limits = { maxAstNodes: 10_000, maxDepth: 100 };
const parser = new Environment({ enableOptionalTypes: true, limits });

export interface Parsed {
  readonly expression: Expression;
  /** The names that it mentions, variables of macros among them. */
  readonly names: ReadonlySet<string>;
}

/** @throws CelError where the text is no expression, or one that is too long or nests too deep */
export function parseExpression(source: string): Parsed {
  const { source: plain, marks } = liftOptionalItems(source);
  const unclaimed = new Set(marks);
  const names = new Set<string>();
  const conversion: Conversion = {
    source: plain,
    marks: unclaimed,
    names,
    convert: (node) => convertNode(node, conversion),
    fail: (message, at) => new CelError(message, { position: positionOf(source, at) }),
  };
  const expression = conversion.convert(parseNode(plain));
  const [mark] = unclaimed;
  if (mark !== undefined) throw conversion.fail("Syntax error: unexpected '?'", mark);
  return { expression, names };
}

function parseNode(source: string): ASTNode {
  try {
    return parser.parse(source).ast;
  } catch (error) {
    if (!(error instanceof ParseError)) throw error;
    const position = positionOf(source, error.range?.start ?? 0);
    const message =
      error.code === 'invalid_macro_argument'
        ? 'argument must be a simple name'
        : `Syntax error: ${error.summary}`;
    throw new CelError(message, { position }); // the library's error holds a copy of the source
  }
}

interface Conversion extends MacroContext {
  readonly source: string;
  /** Question marks of optional items whose item is not found yet. */
  readonly marks: Set<number>;
  readonly names: Set<string>;
}

const OPERATORS = { '[]': '_[_]', '[?]': '_[?_]', in: '@in' } as const;

function convertNode(node: ASTNode, conversion: Conversion): Expression {
  const { source, convert, fail, names } = conversion;
  switch (node.op) {
    case 'value':
      return literalOf(node, undefined, fail);
    case 'id':
      names.add(node.args);
      return { kind: 'identifier', name: node.args, at: node.start };
    case '.':
    case '.?': {
      const [operand, field] = node.args;
      const mode = node.op === '.' ? 'read' : 'optional';
      return { kind: 'select', operand: convert(operand), field, mode, at: behind(operand, source) };
    }
    case 'call':
    case 'rcall':
      return expandMacro(callOf(node, source), conversion);
    case 'list':
    case 'map':
      return aggregateOf(node, conversion);
    case '?:':
      return operator('_?_:_', node.args.map(convert), behind(node.args[0], source));
    case '!_':
      return operator('!_', [convert(node.args)], node.start);
    case '-_':
      return isNumber(node.args)
        ? literalOf(node.args, node.start, fail)
        : operator('-_', [convert(node.args)], node.start);
    case '[]':
    case '[?]':
    case 'in':
      return operator(OPERATORS[node.op], node.args.map(convert), behind(node.args[0], source));
    case '||':
    case '&&':
    case '==':
    case '!=':
    case '<':
    case '<=':
    case '>':
    case '>=':
    case '+':
    case '-':
    case '*':
    case '/':
    case '%':
      return operator(`_${node.op}_`, node.args.map(convert), behind(node.args[0], source));
  }
}

const operator = (name: string, parts: readonly Expression[], at: number): Expression => ({
  kind: 'call',
  name,
  target: undefined,
  arguments: parts,
  at,
});

type Node<Op extends ASTNode['op']> = Extract<ASTNode, { readonly op: Op }>;

const isNumber = (node: ASTNode): node is Node<'value'> =>
  node.op === 'value' && (typeof node.args === 'bigint' || typeof node.args === 'number');

/** Messages about a call point at its opening parenthesis. */
function callOf(node: Node<'call'> | Node<'rcall'>, source: string): ParsedCall {
  if (node.op === 'call') {
    const [name, parts] = node.args;
    return { name, target: undefined, parts, at: nextToken(source, node.start + name.length) };
  }
  const [name, target, parts] = node.args;
  const word = nextToken(source, behind(target, source) + 1);
  return { name, target, parts, at: nextToken(source, word + name.length) };
}

function aggregateOf(node: Node<'list'> | Node<'map'>, { convert, marks }: Conversion): Expression {
  const at = node.start;
  let end = at;
  const isOptional = (first: ASTNode, last: ASTNode) => {
    const optional = claim(marks, end, first.start);
    end = last.end;
    return optional;
  };
  if (node.op === 'list') {
    const items = node.args.map((item) => ({ value: convert(item), optional: isOptional(item, item) }));
    return { kind: 'list', items, at };
  }
  const entries = node.args.map(([key, value]) => ({
    key: convert(key),
    value: convert(value),
    optional: isOptional(key, value),
  }));
  return { kind: 'map', entries, at };
}

/** Whether one of the marks stands between an item and what comes before it. */
function claim(marks: Set<number>, from: number, to: number): boolean {
  for (const mark of marks) {
    if (mark >= from && mark < to) return marks.delete(mark);
  }
  return false;
}

/** Where the operator behind an operand stands; the parser leaves parentheses out of an operand's range. */
const behind = (operand: ASTNode, source: string) => nextToken(source, operand.end, ')');
