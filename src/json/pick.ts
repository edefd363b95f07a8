/** Only these fields of an object, and of them only those that are there: what a store need not keep is dropped. */
export function pick<T extends object, Key extends keyof T>(
  object: T,
  ...keys: readonly Key[]
): Pick<T, Key> {
  const entries = keys.flatMap((key) => (object[key] === undefined ? [] : [[key, object[key]] as const]));
  return Object.fromEntries(entries) as Pick<T, Key>; // a field that is absent may be so by the type of the object
}
