import type { CompiledPolicy } from '../compiled-policy.ts';
import { fill } from '../field-path.ts';
import type { JsonObject } from '../json.ts';

/** The object with the policy's defaults wherever they are absent. Twice is the same as once; the object itself never changes. */
export function fillDefaults({ defaults }: CompiledPolicy, object: JsonObject): JsonObject {
  return defaults.reduce((filled, { path, value }) => fill(filled, path, value), object);
}
