/** `gatehouse generate crd`: CustomResourceDefinitions from kinds of `defineKind`. */
import { resolve } from 'node:path';

import { isKind, type Kind } from '../../controllers/define-kind.ts';
import { isJsonObject, parseJson, type JsonObject } from '../../json/json.ts';
import { createStorage } from '../../machinery/storage/storage.ts';
import { loadExports } from '../../runtime/handlers/load-handlers.ts';
import { UnusableInput } from '../review/input.ts';
import { createKinds } from '../review/kinds.ts';
import { toYaml } from '../terminal/output.ts';
import { answer } from './output.ts';
import { toStructural } from './structural.ts';

export const crd = (module: string, { out }: { readonly out?: string }): Promise<0 | 2> =>
  answer(out, async () => {
    const kinds = [...new Set(Object.values(await loadExports(resolve(module))).filter(isKind))];
    if (kinds.length === 0) throw new UnusableInput(`${module}: it exports no result of defineKind`);
    return kinds.map((kind) => toYaml(definitionOf(kind, module), { lineWidth: 0 })).join('---\n');
  });

/** @throws UnusableInput when a schema is not structural, or an API server would reject the definition */
export function definitionOf(given: Kind, file: string): JsonObject {
  const { group, version, kind, plural, scope } = given;
  const schemaOf = (field: 'spec' | 'status') => {
    const schema = parseJson(JSON.stringify(given[field] ?? { type: 'object' })); // without the symbols of a library
    return toStructural(schema, `${file}: ${kind}: ${field}`);
  };
  const spec = schemaOf('spec');
  const status = schemaOf('status');
  const fields = isJsonObject(status.properties) ? status.properties : {};
  const schema = {
    type: 'object',
    required: ['spec'],
    properties: { spec, status: { ...status, properties: { ...fields, ...CONTROLLER_STATUS } } },
  };
  const object: JsonObject = {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: `${plural}.${group}` },
    spec: {
      group,
      scope,
      names: { kind, listKind: `${kind}List`, plural, singular: kind.toLowerCase() },
      versions: [
        {
          name: version,
          served: true,
          storage: true,
          subresources: { status: {} },
          schema: { openAPIV3Schema: schema },
        },
      ],
    },
  };
  createKinds([{ place: { file }, object }], createStorage());
  return object;
}

const TEXT = { type: 'string' };
const TIME = { type: 'string', format: 'date-time' };
const GENERATION = { type: 'integer', format: 'int64' };

/** What a controller writes. */
const CONTROLLER_STATUS: JsonObject = {
  observedGeneration: GENERATION,
  progress: {
    type: 'object',
    required: ['operation', 'id', 'startedAt', 'attempt'],
    properties: { operation: TEXT, id: TEXT, startedAt: TIME, attempt: { type: 'integer' } },
  },
  conditions: {
    type: 'array',
    'x-kubernetes-list-type': 'map',
    'x-kubernetes-list-map-keys': ['type'],
    items: {
      type: 'object',
      required: ['type', 'status', 'reason', 'message', 'lastTransitionTime'],
      properties: {
        type: TEXT,
        status: { type: 'string', enum: ['True', 'False', 'Unknown'] },
        reason: TEXT,
        message: TEXT,
        observedGeneration: GENERATION,
        lastTransitionTime: TIME,
      },
    },
  },
};
