/** The structural schemas of custom resources. They give expressions their types. */
import { isJsonObject, ownValue, type JsonObject } from '../../json/json.ts';
import { type KubeObject, groupResourceName, type GroupResource } from '../../json/kube-object.ts';
import { memoizeAsync } from '../../json/memoize-async.ts';
import { ApiError } from '../../kube/api-error.ts';
import type { KubeClient } from '../../kube/client.ts';
import { orAborted } from '../../kube/clock.ts';
import { customResourceDefinitions } from '../../kube/well-known.ts';

/** The schemas of the given versions; `*` is all served versions. Undefined for built-in kinds and unknown schemas. */
export type CrdSchemas = (
  resource: GroupResource,
  versions: readonly string[],
  signal: AbortSignal,
) => Promise<readonly JsonObject[] | undefined>;

interface Definition extends KubeObject {
  readonly spec?: {
    readonly versions?: readonly {
      readonly name?: string;
      readonly served?: boolean;
      readonly schema?: { readonly openAPIV3Schema?: unknown };
    }[];
  };
}

/** How long a definition is cached, in milliseconds: many policies govern the same kinds, and all compile at start. */
const FRESH_MS = 10_000;

export function createCrdSchemas({ get }: Pick<KubeClient, 'get'>, now: () => number): CrdSchemas {
  const definitions = memoizeAsync(
    (name: string) => get<Definition>(customResourceDefinitions, { name }),
    (name) => name,
    { now, ttlMs: FRESH_MS },
  );
  return async (resource, versions, signal) => {
    if (!resource.group.includes('.')) return undefined;
    const reading = definitions.read(groupResourceName(resource)).catch((error: unknown) => {
      if (error instanceof ApiError && error.code === 403) return undefined; // expressions compile without types too
      throw error;
    });
    const definition = await orAborted(reading, signal);
    if (definition === undefined) return undefined;
    const schemas = (definition.spec?.versions ?? [])
      .filter(
        ({ name = '', served }) => served === true && (versions.includes('*') || versions.includes(name)),
      )
      .map(({ schema }) => schema?.openAPIV3Schema);
    return schemas.every(isSchema) ? schemas : undefined;
  };
}

/** A schema without `properties` allows any field, so it gives no types. */
function isSchema(schema: unknown): schema is JsonObject {
  return isJsonObject(schema) && isJsonObject(ownValue(schema, 'properties'));
}
