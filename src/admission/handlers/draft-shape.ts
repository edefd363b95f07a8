import { isJsonObject, ownValue, type JsonObject } from '../../json/json.ts';
import { quote } from '../../json/shown.ts';

/**
 * What is wrong with an object that a handler made, as far as every kind has it in common; undefined when nothing is.
 *
 * The API server cannot decode such an object, and fails the request even under `failurePolicy: Ignore`.
 */
export function shapeProblem(before: JsonObject, after: JsonObject): string | undefined {
  for (const field of ['apiVersion', 'kind']) {
    if (ownValue(before, field) !== ownValue(after, field)) return `${field}: it cannot be changed`;
  }
  const metadata = ownValue(after, 'metadata');
  if (metadata === undefined) return undefined;
  if (!isJsonObject(metadata)) return 'metadata: it is no object';
  return mapProblem(metadata, 'labels') ?? mapProblem(metadata, 'annotations');
}

function mapProblem(metadata: JsonObject, field: string): string | undefined {
  const map = ownValue(metadata, field);
  if (map === undefined || map === null) return undefined;
  if (!isJsonObject(map)) return `metadata.${field}: it is no object`;
  const wrong = Object.keys(map).find((key) => typeof ownValue(map, key) !== 'string');
  return wrong === undefined
    ? undefined
    : `metadata.${field}[${quote(wrong)}]: it is ${quote(ownValue(map, wrong))}, not a string: write "…" around it`;
}
