/**
 * Gives an object a key of its own, whatever it is called: an assignment to `__proto__` would change the prototype. All other keys
 * are assigned, because V8 makes a slow dictionary of an object to which properties are defined one by one.
 */
export function setOwn<T>(object: Record<string, T>, key: string, value: T): void {
  if (key === '__proto__') {
    Object.defineProperty(object, key, { value, enumerable: true, configurable: true, writable: true });
  } else {
    object[key] = value;
  }
}
