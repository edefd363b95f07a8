import { matching } from '../frame.ts';
import { CEL_TYPE, type CelOpaque, NONE, optional } from '../values.ts';
import { define, type CelFunction } from './define.ts';
import { FORMATS, type Format } from './formats.ts';
import type { CelFormat } from './opaque-values.ts';

const named: ReadonlyMap<string, CelFormat> = new Map(
  Object.entries(FORMATS).map(([name, format]) => [
    name,
    { [CEL_TYPE]: 'kubernetes.NamedFormat', identity: name, format },
  ]),
);

function validate({ format }: CelFormat, text: string) {
  const problems = format(text);
  return problems.length === 0 ? NONE : optional(problems);
}

/** About as long as the patterns of the formats are. */
const PATTERN = ' '.repeat(60);

/** `format.dns1123Label().validate(text)`: the faults of a text, or none. */
export const format: readonly CelFunction[] = [
  ...[...named].map(([name, value]) => define(`format.${name}(): format`, () => value)),
  define('format.named(string): optional<format>', (name) => optional(named.get(name))),
  define('<format>.validate(string): optional<list<string>>', validate, (_self, text) =>
    matching(text, PATTERN),
  ),
];
