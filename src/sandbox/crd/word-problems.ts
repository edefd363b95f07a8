import type { Cause } from '../failure.ts';
import { requiredValue, unsupportedValue } from '../schema/causes.ts';

/** For fields that take one of a few words; empty counts as absent. */
export function wordProblems(field: string, value: string, supported: readonly string[]): readonly Cause[] {
  if (value === '') return [requiredValue(field)];
  return supported.includes(value) ? [] : [unsupportedValue(field, value, supported)];
}
