import { isEqual } from '../../json/json.ts';
import type { ApiObject } from '../api-object.ts';
import { flag } from '../reading.ts';
import type { Cause } from '../failure.ts';
import { forbiddenValue } from '../schema/causes.ts';
import { stringMap } from './reading.ts';

/** What may not change once `immutable` is set: for Secrets and ConfigMaps alike. */
export function frozenProblems(
  object: ApiObject,
  old: ApiObject,
  fields: readonly string[],
): readonly Cause[] {
  if (!flag(old, 'immutable')) return [];
  const why = 'field is immutable when `immutable` is set';
  const changed = fields.filter((name) => !isEqual(stringMap(object, name), stringMap(old, name)));
  return [
    ...(flag(object, 'immutable') ? [] : [forbiddenValue('immutable', why)]),
    ...changed.map((name) => forbiddenValue(name, why)),
  ];
}
