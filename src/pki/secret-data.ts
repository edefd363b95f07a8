import { messageOf } from '../json/abort.ts';

export type SecretData = Readonly<Record<string, string>>;

export const base64 = (text: string | Uint8Array): string => Buffer.from(text).toString('base64');

export const textOf = (data: SecretData | undefined, key: string): string | undefined =>
  data !== undefined && Object.hasOwn(data, key)
    ? Buffer.from(data[key] ?? '', 'base64').toString('utf8')
    : undefined;

/** All values as text. */
export const textsOf = (data: SecretData = {}): SecretData =>
  Object.fromEntries(Object.keys(data).map((key) => [key, textOf(data, key) ?? '']));

export function inKey<Value>(key: string, read: () => Value): Value {
  try {
    return read();
  } catch (cause) {
    throw new Error(`${key}: ${messageOf(cause)}`, { cause });
  }
}
