/** The value at a path such as `status.phase` or `metadata.annotations["a.b/c"]`; undefined where there is none. */
export function fieldAt(object: unknown, path: string): unknown {
  let value: unknown = object;
  for (const [, plain, quoted] of path.matchAll(/(?:^|\.)([^.[\]"]+)|\["([^"]*)"\]/g)) {
    const name = plain ?? quoted ?? '';
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined;
    value = (value as Readonly<Record<string, unknown>>)[name]; // an object with that own property
  }
  return value;
}

/** Whether `fieldAt` understands all of it. */
export function isFieldPath(path: string): boolean {
  return /^[^.[\]"]+(?:\.[^.[\]"]+|\["[^"]*"\])*$/.test(path);
}
