// suite: shared-plane, sandbox: no (its schemas are smaller)
/** The lists of built-in kinds that a Merge merges by item, compared with the schemas of an API server. */
import { afterAll, beforeAll, expect, test } from 'vitest';

import { BUILT_IN_LISTS, customLists } from '../../src/admission/policy/mutations/list-types.ts';
import { isJsonObject, type JsonObject, listIn, objectIn, textIn, valueIn } from '../../src/json/json.ts';
import type { ListTypes } from '../../src/json/merge-patch.ts';
import { startCluster, type Cluster } from '../support/cluster.ts';
import { NEWEST_RELEASE } from '../support/go-programs.ts';

let cluster: Cluster;
beforeAll(async () => {
  cluster = await startCluster();
});
afterAll(() => cluster.stop());

const DEFINITIONS = 'components';

/** The schema without references. Kinds that contain themselves end at the second level. */
function resolved(schema: unknown, document: JsonObject, above: readonly string[] = []): JsonObject {
  const [first] = listIn(schema, 'allOf');
  const name = (textIn(schema, '$ref') || textIn(first, '$ref')).split('/').at(-1) ?? '';
  if (above.includes(name)) return {};
  const plain = name === '' ? schema : valueIn(document, DEFINITIONS, 'schemas', name);
  const below = (child: unknown) => resolved(child, document, name === '' ? above : [...above, name]);
  const parts = isJsonObject(plain) ? plain : {};
  const { items, additionalProperties, properties, ...rest } = parts;
  return {
    ...rest,
    ...(isJsonObject(schema) && schema.default !== undefined ? { default: schema.default } : {}),
    ...(items === undefined ? {} : { items: below(items) }),
    ...(isJsonObject(additionalProperties) ? { additionalProperties: below(additionalProperties) } : {}),
    properties: Object.fromEntries(
      Object.entries(isJsonObject(properties) ? properties : {}).map(([key, child]) => [key, below(child)]),
    ),
  };
}

/** `spec.ports:port,protocol=TCP`, without status and the metadata of templates. */
function textsOf({ keys, below }: ListTypes, path: readonly string[] = []): readonly string[] {
  const names = keys?.map(([name, preset]) =>
    [null, '', 0].includes(preset as string) ? name : `${name}=${JSON.stringify(preset).replaceAll('"', '')}`,
  );
  return [
    ...(names === undefined ? [] : [`${path.join('.')}:${names.join()}`]),
    ...[...below].flatMap(([name, lists]) =>
      name === 'status' || (name === 'metadata' && path.length > 0) || name === 'managedFields'
        ? []
        : textsOf(lists, [...path, name]),
    ),
  ].sort();
}

test.each([...BUILT_IN_LISTS.keys()])('the lists of %s are those of the API server', async (kind) => {
  const [resource = '', ...group] = kind.split('.');
  const root = group.length === 0 ? 'api/v1' : `apis/${group.join('.')}/v1`;
  const ask = (path: string) => cluster.adminRest.request<JsonObject>({ method: 'GET', path });
  const { resources } = await ask(`/${root}`);
  const name = listIn(resources).find((one) => textIn(one, 'name') === resource);
  const document = await ask(`/openapi/v3/${root}`);
  const definition = Object.values(objectIn(document, DEFINITIONS, 'schemas')).find((one) =>
    listIn(one, 'x-kubernetes-group-version-kind').some(
      (each) => textIn(each, 'kind') === textIn(name, 'kind') && textIn(each, 'group') === group.join('.'),
    ),
  );
  const served = textsOf(customLists(resolved(definition, document)) ?? { below: new Map() });
  const known = textsOf(BUILT_IN_LISTS.get(kind) ?? { below: new Map() });
  expect(known).toEqual(expect.arrayContaining([...served]));
  // Older API servers lack some fields.
  if (cluster.plane.version.gitVersion === NEWEST_RELEASE) expect(served).toEqual(known);
});
