import { placeOf } from '../../machinery/storage/stored.ts';
import { isJsonObject, ownValue, type JsonObject, type JsonValue } from '../../json/json.ts';
import { ofJson, toJson, withMeta, type ApiObject } from '../../machinery/api-object.ts';
import { parseBody } from '../http/content-type.ts';
import {
  internalError,
  invalid,
  methodNotAllowed,
  notFound,
  unsupportedMediaType,
} from '../../machinery/failure.ts';
import { builtInKind } from '../../machinery/kinds/built-in-kind.ts';
import { section } from '../../machinery/fields.ts';
import { INT32, object, STRING } from '../../machinery/kinds/schema-builders.ts';
import { shownSelector } from '../../machinery/kinds/selector-text.ts';
import { applyJsonPatch } from '../../machinery/patch/json-patch.ts';
import { applyMergePatch } from '../../machinery/patch/merge-patch.ts';
import type { ResourceRequest } from '../../machinery/request.ts';
import type { ResourceType } from '../../machinery/resource-type.ts';
import { invalidValue } from '../../machinery/schema/causes.ts';
import { objectAnswer, type Answer } from './answer.ts';
import { decodeObject } from '../../machinery/objects/decode.ts';
import type { Api, ApiRequest } from './context.ts';
import { inNamespace } from './create.ts';
import { objectBody } from './decode-body.ts';
import { writeOptionsOf, type WriteOptions } from './options.ts';
import { change, refuseOtherName } from './update.ts';

/** The Scale object, for resources of every kind. */
const SCALE: ResourceType = builtInKind({
  apiVersion: 'autoscaling/v1',
  kind: 'Scale',
  resource: 'scales',
  namespaced: true,
  description: 'How many replicas something has, and how many it is to have.',
  fields: { spec: object({ replicas: INT32 }), status: object({ replicas: INT32, selector: STRING }) },
});

type Scaled = ResourceType & Required<Pick<ResourceType, 'scale'>>;

export const hasScale = (type: ResourceType): type is Scaled => type.scale !== undefined;

/**
 * Handles a request to `…/<name>/scale`.
 * @throws ApiFailure
 * @see ScaleREST of k8s.io/apiextensions-apiserver/pkg/registry/customresource
 */
export async function handleScale(
  api: Api,
  request: ApiRequest,
  info: ResourceRequest,
  type: Scaled,
): Promise<Answer> {
  switch (info.verb) {
    case 'get': {
      const key = { namespace: info.namespace, name: info.name };
      const stored = api.storage.get(placeOf(type), key);
      if (stored === undefined) throw notFound(type, info.name);
      const [live = stored] = await api.convert([stored], type);
      return objectAnswer(SCALE, scaleOf(live, type));
    }
    case 'update': {
      const options = writeOptionsOf(request.query, 'UpdateOptions');
      const body = objectBody(request, SCALE.kind);
      return await changeScale(api, request, info, type, options, () => body);
    }
    case 'patch': {
      const options = writeOptionsOf(request.query, 'PatchOptions');
      const apply = patchOf(request);
      return await changeScale(api, request, info, type, options, (live) => apply(toJson(live)));
    }
    case 'create':
    case 'delete':
    case 'deletecollection':
    case 'list':
    case 'watch':
      throw methodNotAllowed();
  }
}

async function changeScale(
  api: Api,
  request: ApiRequest,
  info: ResourceRequest,
  type: Scaled,
  options: WriteOptions,
  wanted: (live: ApiObject) => JsonValue,
): Promise<Answer> {
  const changed = await change(api, request, info, type, {
    options,
    recorded: false,
    uid: '',
    view: {
      type: SCALE,
      show: (whole) => scaleOf(whole, type),
      put: (whole, scale) => withReplicas(whole, scale, type),
    },
    wanted: (live) => {
      const body = wanted(scaleOf(live, type));
      const decoded = decodeObject(body, SCALE, options.fieldValidation, request.notes);
      const scale = inNamespace(decoded, info.namespace, type);
      refuseOtherName(scale, info.name);
      const { resourceVersion = '' } = scale.metadata;
      const scaled = withReplicas(live, scale, type);
      return resourceVersion === '' ? scaled : withMeta(scaled, { resourceVersion });
    },
  });
  return objectAnswer(SCALE, scaleOf(changed, type));
}

function patchOf({ body, contentType = '' }: ApiRequest): (live: JsonObject) => JsonObject {
  const patch = parseBody(body, 'application/json');
  const language = contentType.split(';', 1)[0]?.trim() ?? '';
  switch (language) {
    case 'application/json-patch+json':
      return (live) => applyJsonPatch(live, patch);
    // A Scale has no merge keys, so both merge patches are the same.
    case 'application/merge-patch+json':
    case 'application/strategic-merge-patch+json':
      return (live) => applyMergePatch(live, patch);
    default:
      throw unsupportedMediaType(
        'the body of the request was in an unknown format - accepted media types include: ' +
          'application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json',
      );
  }
}

/** `.spec.replicas` → `['spec', 'replicas']` */
const keysOf = (path: string): readonly string[] => path.split('.').filter((key) => key !== '');

function valueAt(whole: ApiObject, path: string): JsonValue | undefined {
  return keysOf(path).reduce<JsonValue | undefined>(
    (value, key) => (isJsonObject(value) ? ownJson(value, key) : undefined),
    toJson(whole),
  );
}

const ownJson = (value: JsonObject, key: string): JsonValue | undefined =>
  Object.hasOwn(value, key) ? value[key] : undefined;

function scaleOf(whole: ApiObject, type: Scaled): ApiObject {
  const { scale } = type;
  const { name = '', namespace, uid = '', resourceVersion = '', creationTimestamp } = whole.metadata;
  const replicas = valueAt(whole, scale.specReplicasPath);
  if (typeof replicas !== 'number') {
    throw internalError(`the spec replicas field "${scale.specReplicasPath}" does not exist`);
  }
  const current = valueAt(whole, scale.statusReplicasPath);
  const selector = selectorOf(whole, type);
  return ofJson({
    kind: 'Scale',
    apiVersion: 'autoscaling/v1',
    metadata: {
      name,
      ...(namespace === undefined ? {} : { namespace }),
      uid,
      resourceVersion,
      ...(creationTimestamp === undefined ? {} : { creationTimestamp }),
    },
    spec: replicas === 0 ? {} : { replicas },
    status: {
      replicas: typeof current === 'number' ? current : 0,
      ...(selector === '' ? {} : { selector }),
    },
  });
}

/** The selector as text. Built-in kinds convert their label selector; in a custom resource it must be a string. */
function selectorOf(whole: ApiObject, { custom, scale }: Scaled): string {
  if (!custom) return shownSelector(section(whole, 'spec', 'selector'));
  const selector = scale.labelSelectorPath === undefined ? '' : valueAt(whole, scale.labelSelectorPath);
  return typeof selector === 'string' ? selector : '';
}

/** @throws ApiFailure 422 for a negative number */
function withReplicas(whole: ApiObject, wanted: ApiObject, { scale }: Scaled): ApiObject {
  const { spec } = wanted;
  const replicas = (isJsonObject(spec) ? ownValue(spec, 'replicas') : undefined) ?? 0;
  if (typeof replicas !== 'number' || replicas < 0) {
    throw invalid(SCALE, whole.metadata.name ?? '', [
      invalidValue('spec.replicas', Number(replicas), 'must be greater than or equal to 0'),
    ]);
  }
  return ofJson(put(toJson(whole), keysOf(scale.specReplicasPath), replicas));
}

function put(parent: JsonObject, [key = '', ...rest]: readonly string[], value: JsonValue): JsonObject {
  if (rest.length === 0) return { ...parent, [key]: value };
  const child = ownJson(parent, key);
  return { ...parent, [key]: put(isJsonObject(child) ? child : {}, rest, value) };
}
