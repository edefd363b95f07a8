import type { Schema } from './schema.ts';

/** The schema of a declared property, whatever its name (`constructor` too). */
export function property(schema: Schema, name: string): Schema | undefined {
  const { properties } = schema;
  return properties !== undefined && Object.hasOwn(properties, name) ? properties[name] : undefined;
}

/** The schema of a field: of its property, else of any further one. Undefined: unknown, or anything goes. */
export function childSchema(schema: Schema, name: string): Schema | undefined {
  return property(schema, name) ?? furtherSchema(schema);
}

/** The schema of the values of a map. */
export function furtherSchema({ additionalProperties }: Schema): Schema | undefined {
  return typeof additionalProperties === 'object' ? additionalProperties : undefined;
}

/**
 * Whether a schema or anything below it (branches aside) is as `test` says. Remembered by schema: walks over objects ask at
 * every step, and most schemas answer no at the root.
 */
export function anywhere(test: (schema: Schema) => boolean): (schema: Schema) => boolean {
  const remembered = new WeakMap<Schema, boolean>();
  const isAnywhere = (schema: Schema): boolean => {
    const known = remembered.get(schema);
    if (known !== undefined) return known;
    const children = [...Object.values(schema.properties ?? {}), furtherSchema(schema), schema.items];
    const found = test(schema) || children.some((child) => child !== undefined && isAnywhere(child));
    remembered.set(schema, found);
    return found;
  };
  return isAnywhere;
}
