/** Checks steps against the schemas: a misspelt path would silently do nothing. */
import type { Segment } from '../../json/field-path.ts';
import { isJsonObject, textIn, valueIn, type JsonObject } from '../../json/json.ts';
import type { CompiledStep } from './compile-steps.ts';
import type { ConversionProblem } from './conversion-problem.ts';
import type { Spoke } from './policy-converter.ts';
import type { StepPath } from './step-path.ts';
import { schemaAt } from './structural-schema.ts';

/** A version and its schema. */
interface Side {
  readonly name: string;
  readonly schema: JsonObject | undefined;
}

export function fieldProblems(
  { toHub, fromHub }: Spoke,
  where: string,
  spoke: Side,
  hub: Side,
): readonly ConversionProblem[] {
  const touched = [...toHub, ...fromHub].flatMap(({ reads, writes }) => [...reads, ...writes]);
  return [
    ...pathProblems(toHub, spoke, hub),
    ...pathProblems(fromHub, hub, spoke),
    ...typeChanges(spoke, hub, touched, where),
  ];
}

/**
 * A step must read a field of either version, or one that an earlier step wrote. What it writes must be a field of the
 * target version, or be read by a later step.
 */
function pathProblems(steps: readonly CompiledStep[], from: Side, to: Side): readonly ConversionProblem[] {
  return steps.flatMap(({ where, reads, writes }, index) => {
    const madeBefore = steps.slice(0, index).flatMap((step) => step.writes);
    const takenLater = steps.slice(index + 1).flatMap((step) => step.reads);
    const lost = reads.filter(
      (path) => !isIn(path, from) && !isIn(path, to) && !madeBefore.some((other) => overlap(path, other)),
    );
    const dropped = writes.filter(
      (path) => !isIn(path, to) && !takenLater.some((other) => overlap(path, other)),
    );
    return [
      ...lost.map((path) => unknownField(where, path, from, 'so the step would never find anything')),
      ...dropped.map((path) =>
        unknownField(where, path, to, 'so the API server would drop what the step writes'),
      ),
    ];
  });
}

const isIn = ({ segments }: StepPath, { schema }: Side): boolean =>
  schemaAt(schema, segments).kind !== 'unknown';

function unknownField(where: string, { text }: StepPath, { name }: Side, why: string): ConversionProblem {
  return {
    reason: 'UnknownField',
    where,
    message: `${text} is no field in the schema of version ${name}, ${why}: correct the path, or add the field there`,
  };
}

/** Whether one path is equal to the other or a prefix of it. */
function overlap(one: StepPath, other: StepPath): boolean {
  const length = Math.min(one.segments.length, other.segments.length);
  return JSON.stringify(one.segments.slice(0, length)) === JSON.stringify(other.segments.slice(0, length));
}

function typeChanges(
  spoke: Side,
  hub: Side,
  touched: readonly StepPath[],
  where: string,
): readonly ConversionProblem[] {
  const touches = new Set(touched.flatMap(({ segments }) => prefixes(segments)));
  const whole = new Set(touched.map(({ segments }) => JSON.stringify(segments)));
  const problems: ConversionProblem[] = [];
  const compare = (one: JsonObject, other: JsonObject, segments: readonly Segment[], text: string): void => {
    const key = JSON.stringify(segments);
    if (whole.has(key)) return;
    const [before, after] = [textIn(one, 'type'), textIn(other, 'type')];
    if (!isCompatible(before, after)) {
      if (touches.has(key)) return; // a step handles this field
      const message =
        `${text} is ${withArticle(before)} in version ${spoke.name} and ${withArticle(after)} in ${hub.name}: ` +
        'convert it by a set step in both directions, or remove it';
      problems.push({ reason: 'TypeChange', where, message });
      return;
    }
    const descend = (below: Segment, path: string, ...keys: readonly string[]) => {
      const [mine, theirs] = [valueIn(one, ...keys), valueIn(other, ...keys)];
      if (isJsonObject(mine) && isJsonObject(theirs)) compare(mine, theirs, [...segments, below], path);
    };
    descend({ kind: 'each' }, `${text}[*]`, 'items');
    for (const name of Object.keys(valueIn(one, 'properties') ?? {})) {
      if (text === '' && name === 'metadata') continue;
      descend({ kind: 'field', name }, text === '' ? name : `${text}.${name}`, 'properties', name);
    }
  };
  if (spoke.schema !== undefined && hub.schema !== undefined) compare(spoke.schema, hub.schema, [], '');
  return problems;
}

/** All prefixes of a path, as text. */
function prefixes(segments: readonly Segment[]): readonly string[] {
  return segments.map((_segment, index) => JSON.stringify(segments.slice(0, index + 1)));
}

/** Whether a value of one type is valid for the other. A schema without a type accepts anything. */
function isCompatible(before: string, after: string): boolean {
  const isNumber = (type: string) => type === 'integer' || type === 'number';
  return before === '' || after === '' || before === after || (isNumber(before) && isNumber(after));
}

const withArticle = (type: string): string => (/^[aeio]/.test(type) ? `an ${type}` : `a ${type}`);
