import { isOptional } from './values.ts';

/** The value of an expression that may have none: undefined for `optional.none()`; what is no optional is itself. */
export function valueOfOptional(result: unknown): unknown {
  return isOptional(result) ? result.value : result;
}
