import type { JsonObject } from '../../json/json.ts';

/** One object with the fields of all; of equal ones the last. */
export const merged = (objects: readonly JsonObject[]): JsonObject =>
  Object.fromEntries(objects.flatMap((object) => Object.entries(object)));
