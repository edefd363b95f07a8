import { isJsonObject, parseJson, type JsonObject } from '../../../src/json/json.ts';
import { ApiFailure } from '../../../src/machinery/failure.ts';

export function statusOf(act: () => unknown): ApiFailure['status'] {
  try {
    act();
  } catch (error) {
    if (error instanceof ApiFailure) return error.status;
    throw error;
  }
  throw new Error('expected a failure');
}

export function parsed(text: string): JsonObject {
  const value = parseJson(text);
  if (!isJsonObject(value)) throw new Error(`${text} is not an object`);
  return value;
}
