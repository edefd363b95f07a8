import { isJsonObject, type JsonObject, type JsonValue } from '../../../src/json/json.ts';
import { ofJson, type ApiObject } from '../../../src/machinery/api-object.ts';
import { text } from '../../../src/machinery/fields.ts';
import { planDefinitionStatus } from '../../../src/machinery/crd/status.ts';

export const NOW = '2026-01-02T03:04:05Z';

export const VERSION: JsonObject = {
  name: 'v1',
  served: true,
  storage: true,
  schema: {
    openAPIV3Schema: {
      type: 'object',
      properties: { spec: { type: 'object', properties: { color: { type: 'string' } } } },
    },
  },
};

export const NAMES = {
  plural: 'servers',
  singular: 'server',
  kind: 'Server',
  listKind: 'ServerList',
  shortNames: ['srv'],
} satisfies JsonObject;

export function definition(spec: Readonly<Record<string, JsonValue>> = {}): ApiObject {
  const names = isJsonObject(spec.names) ? spec.names : NAMES;
  const whole = {
    group: 'infra.example.com',
    scope: 'Namespaced',
    names,
    versions: [VERSION],
    conversion: { strategy: 'None' },
    ...spec,
  };
  return ofJson({
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: `${text(names, 'plural')}.${text(whole, 'group')}` },
    spec: whole,
    status: { conditions: [], acceptedNames: { plural: '', kind: '' }, storedVersions: ['v1'] },
  });
}

export const established = (spec?: Readonly<Record<string, JsonValue>>): ApiObject =>
  planDefinitionStatus(definition(spec), [], NOW);
