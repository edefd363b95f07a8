/** Rules about the lists of a CustomResourceDefinition, and objects for them. */
import type { JsonObject } from '../../../src/json/json.ts';
import type { Schema } from '../../../src/machinery/schema/schema.ts';
import type { Seeded } from '../seeded.ts';

const TEXT: Schema = { type: 'string' };
const ITEM: Schema = { type: 'object', properties: { k: TEXT, v: { type: 'integer' } } };
const array = (items: Schema, more: object = {}): Schema => ({ type: 'array', items, ...more });
const ATOMIC = { 'x-kubernetes-list-type': 'atomic' };
const SET = { 'x-kubernetes-list-type': 'set' };
const MAP = { 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['k'] };

const LISTS: Readonly<Record<string, Schema>> = {
  a: array(TEXT, ATOMIC),
  s: array(TEXT, SET),
  t: array(TEXT, SET),
  n: array({ type: 'integer' }, SET),
  m: array(ITEM, MAP),
  o: array(ITEM, MAP),
  l: array(ITEM),
};
const TEXTS = ['a', 's', 't'];
const OBJECTS = ['m', 'o', 'l'];

export function ruleCaseFrom(chance: Seeded): { readonly schema: Schema; readonly object: JsonObject } {
  const isText = chance.chance(0.5);
  const literal = () =>
    isText
      ? `[${textsFrom()
          .map((text) => `'${text}'`)
          .join(', ')}]`
      : `[${itemsFrom()
          .map(({ k }) => `{'k': dyn('${k}'), 'v': dyn(1)}`)
          .join(', ')}]`;
  const list = (): string => {
    if (chance.chance(0.25)) return literal();
    const one = `self.${chance.pick(isText ? TEXTS : OBJECTS)}`;
    return chance.chance(0.2) ? `${one}.filter(x, true)` : one;
  };
  const sum = () => (chance.chance(0.5) ? list() : `(${list()} + ${list()})`);
  const rule = chance.pick([
    () => `${sum()} == ${sum()}`,
    () => `${sum()} != ${sum()}`,
    () => `(${sum()}).size() == ${chance.below(5)}`,
    () => (isText ? `(${sum()}).exists(x, x == 'b')` : `(${sum()}).exists(x, x.k == 'b' && x.v == 1)`),
    () => (isText ? `'b' in ${sum()}` : `${list()} in [${list()}]`),
    () => 'self.n == self.n.filter(x, x > 0)',
  ])();
  const object = {
    ...Object.fromEntries(TEXTS.map((name) => [name, unique(textsFrom(), String)])),
    n: unique(
      textsFrom().map((text) => text.charCodeAt(0) - 97),
      String,
    ),
    ...Object.fromEntries(OBJECTS.map((name) => [name, unique(itemsFrom(), ({ k }) => k)])),
  };
  const schema = { type: 'object', properties: LISTS, 'x-kubernetes-validations': [{ rule }] } as const;
  return { schema, object };

  function textsFrom(): readonly string[] {
    return Array.from({ length: chance.below(4) }, () => chance.pick(['a', 'b', 'c']));
  }

  function itemsFrom() {
    return textsFrom().map((k) => ({ k, v: chance.below(2) }));
  }
}

const unique = <T>(items: readonly T[], keyOf: (item: T) => string): readonly T[] => [
  ...new Map(items.map((item) => [keyOf(item), item])).values(),
];
