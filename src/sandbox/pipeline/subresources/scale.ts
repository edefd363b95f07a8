import { textIn, valueIn, type JsonObject, type JsonValue } from '../../../json/json.ts';
import { ofJson, toJson, withMeta, type ApiObject } from '../../../machinery/api-object.ts';
import { mediaTypeIn, objectBody, parseBody, unknownFormat } from '../../http/content-type.ts';
import { internalError, invalid, methodNotAllowed } from '../../../machinery/failure.ts';
import { builtInKind } from '../../../machinery/kinds/built-in-kind.ts';
import { record, records, section, spec, stringMap, text, texts, value } from '../../../machinery/fields.ts';
import { INT32, object, STRING } from '../../../machinery/kinds/schema-builders.ts';
import { applyJsonPatch, applyMergePatch } from '../../../machinery/patch/json-patch.ts';
import type { ResourceType } from '../../../machinery/resource-type.ts';
import { invalidValue } from '../../../machinery/schema/causes.ts';
import {
  converted,
  decoded,
  objectAnswer,
  storedObject,
  type Answer,
  type ApiRequest,
  type Call,
} from '../context.ts';
import { recorded } from '../create.ts';
import { writeOptionsOf, type WriteOptions } from '../options.ts';
import { change, refuseOtherName } from '../update.ts';

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

/** Handles `…/<name>/scale` (ScaleREST of apiextensions-apiserver). */
export async function handleScale(call: Call, type: Scaled): Promise<Answer> {
  const { api, request, info } = call;
  if (info.verb === 'get')
    return objectAnswer(SCALE, scaleOf(await converted(api, storedObject(call), type), type));
  if (info.verb === 'update') {
    const options = writeOptionsOf(request.query, 'UpdateOptions');
    const body = objectBody(request, SCALE.kind);
    return await changeScale(call, type, options, () => body);
  }
  if (info.verb !== 'patch') throw methodNotAllowed();
  const options = writeOptionsOf(request.query, 'PatchOptions');
  const apply = patchOf(request);
  return await changeScale(call, type, options, (live) => apply(toJson(live)));
}

async function changeScale(
  call: Call,
  type: Scaled,
  options: WriteOptions,
  wanted: (live: ApiObject) => JsonValue,
): Promise<Answer> {
  const changed = await change(call, {
    options,
    view: {
      type: SCALE,
      show: (whole) => scaleOf(whole, type),
      put: (whole, scale) => withReplicas(whole, scale, type),
    },
    wanted: (live) => {
      const scale = decoded(call, wanted(scaleOf(live, type)), SCALE, options);
      refuseOtherName(scale, call.info.name);
      const { resourceVersion = '' } = scale.metadata;
      const scaled = withReplicas(live, scale, type);
      const next = resourceVersion === '' ? scaled : withMeta(scaled, { resourceVersion });
      return recorded(call, options, next, live);
    },
  });
  return objectAnswer(SCALE, scaleOf(changed, type));
}

const FORMATS = ['json-patch', 'merge-patch', 'strategic-merge-patch'].map(
  (name) => `application/${name}+json`,
);

function patchOf({ body, contentType }: ApiRequest): (live: JsonObject) => JsonObject {
  const patch = parseBody(body, 'application/json');
  const format = mediaTypeIn(contentType);
  if (!FORMATS.includes(format)) throw unknownFormat(FORMATS);
  // A Scale lacks merge keys, so both merge patches are equal.
  return (live) => (format === FORMATS[0] ? applyJsonPatch(live, patch) : applyMergePatch(live, patch));
}

/** `.spec.replicas` → `['spec', 'replicas']` */
const keysOf = (path: string): readonly string[] => path.split('.').filter((key) => key !== '');

function scaleOf(whole: ApiObject, type: Scaled): ApiObject {
  const { scale } = type;
  const { name = '', namespace, uid = '', resourceVersion = '', creationTimestamp } = whole.metadata;
  const replicas = valueIn(whole, ...keysOf(scale.specReplicasPath));
  if (typeof replicas !== 'number') {
    throw internalError(`the spec replicas field "${scale.specReplicasPath}" does not exist`);
  }
  const current = valueIn(whole, ...keysOf(scale.statusReplicasPath));
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
  return scale.labelSelectorPath === undefined ? '' : textIn(whole, ...keysOf(scale.labelSelectorPath));
}

/** A LabelSelector as text: `a=b,c in (d,e),!f`; `<none>` if it is empty. */
function shownSelector(selector: JsonObject): string {
  const labels = Object.entries(stringMap(selector, 'matchLabels')).map(([key, value]) => `${key}=${value}`);
  const expressions = records(selector, 'matchExpressions').map(shownExpression);
  return [...labels, ...expressions].sort().join(',') || '<none>';
}

function shownExpression(expression: JsonObject): string {
  const key = text(expression, 'key');
  const values = `(${texts(expression, 'values').toSorted().join(',')})`;
  switch (text(expression, 'operator')) {
    case 'In':
      return `${key} in ${values}`;
    case 'NotIn':
      return `${key} notin ${values}`;
    case 'DoesNotExist':
      return `!${key}`;
    default:
      return key;
  }
}

/** @throws ApiFailure 422 for a negative number */
function withReplicas(whole: ApiObject, wanted: ApiObject, { scale }: Scaled): ApiObject {
  const replicas = value(spec(wanted), 'replicas') ?? 0;
  if (typeof replicas !== 'number' || replicas < 0) {
    throw invalid(SCALE, whole.metadata.name ?? '', [
      invalidValue('spec.replicas', Number(replicas), 'must be greater than or equal to 0'),
    ]);
  }
  return ofJson(put(toJson(whole), keysOf(scale.specReplicasPath), replicas));
}

function put(parent: JsonObject, [key = '', ...rest]: readonly string[], value: JsonValue): JsonObject {
  if (rest.length === 0) return { ...parent, [key]: value };
  return { ...parent, [key]: put(record(parent, key) ?? {}, rest, value) };
}
