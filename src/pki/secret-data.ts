/** Reads and writes the `data` of Secrets. */
import { messageOf } from '../json/error-message.ts';

/** Values in base64. */
export type SecretData = Readonly<Record<string, string>>;

export const base64 = (text: string | Uint8Array): string => Buffer.from(text).toString('base64');

/** The text of a value; undefined if it is missing. */
export const textOf = (data: SecretData | undefined, key: string): string | undefined =>
  data !== undefined && Object.hasOwn(data, key)
    ? Buffer.from(data[key] ?? '', 'base64').toString('utf8')
    : undefined;

/** The result of `read`. An error names the key. */
export function inKey<Value>(key: string, read: () => Value): Value {
  try {
    return read();
  } catch (cause) {
    throw new Error(`${key}: ${messageOf(cause)}`, { cause });
  }
}
