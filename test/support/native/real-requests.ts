/** Generated requests as a client makes them, and what the API server says about the policies of their place. */
import type { Question } from '../../../src/machinery/webhooks/admission-review.ts';
import {
  isJsonObject,
  listIn,
  objectIn,
  parseJson,
  textIn,
  type JsonObject,
} from '../../../src/json/json.ts';
import { toJsonText } from '../../../src/json/json-text.ts';
import type { KubeObject } from '../../../src/json/kube-object.ts';
import { ofJson, toJson } from '../../../src/machinery/api-object.ts';
import type { ResourceType } from '../../../src/machinery/resource-type.ts';
import { warningsIn, type RawAnswer, type Transport } from '../transport.ts';
import { distinct, inCommon, violations, type Verdict } from './judge.ts';
import { askedBy, type Asked } from './requests.ts';
import { installedOf } from '../../../src/admission/native/installed-policy.ts';
import type { NativePair } from '../../../src/admission/native/native-policy.ts';
import { GROUP } from '../admission/policy.ts';
import { ANY, definitionOf, resourceOf, versionOf } from '../definitions.ts';

/** The label of cluster-scoped objects with the name of their place. Other objects are in a namespace of this name. */
export const PLACE_LABEL = 'place';

const SCALED = 'v2';

export type RealRequest = ReturnType<typeof realRequest>;

/** HTTP requests; those before and after the one in question make its old object, and remove what is left. */
interface Steps {
  readonly before: readonly Step[];
  readonly request: Step;
  readonly after: readonly Step[];
}

interface Step {
  readonly method: string;
  readonly path: string;
  readonly body?: JsonObject;
  /** Whether whole numbers are written as 2.0. */
  readonly decimals?: boolean;
}

/**
 * The request in a separate place, with the objects that an API server would have and make of it.
 * @param namespace of the place; cluster-scoped objects have its name as a label
 */
export function realRequest({ question }: Asked, namespace: KubeObject) {
  const place = namespace.metadata?.name ?? '';
  const { attributes } = question;
  const type = attributes.subresource === 'scale' ? { ...attributes.type, version: SCALED } : attributes.type;
  const { operation, subresource, name, user, dryRun } = attributes;
  const isScale = subresource === 'scale';
  const put = (object: Question['object']): JsonObject | undefined =>
    object && placed(isScale ? { ...toJson(object), ...toScale(type) } : toJson(object), type, place);
  const [sent, old] = [put(question.object), put(question.oldObject)];
  const isNamedLater = operation === 'CREATE' && name === '';
  const ownName = textIn(sent ?? old, 'metadata', 'name');
  const changed = isNamedLater && sent !== undefined ? named({ generateName: ownName }, sent) : sent;
  const validated =
    isNamedLater && sent !== undefined
      ? named({ generateName: ownName, name: `${ownName}x2x4z` }, sent)
      : subresource === 'status' && sent !== undefined && old !== undefined
        ? withStatusOf(sent, old)
        : sent;
  const groups = [...user.groups, ...(user.groups.includes(EVERYBODY) ? [] : [EVERYBODY])];
  const within = type.namespaced ? place : attributes.namespace;
  const inPlace = { ...attributes, type, namespace: within, user: { ...user, groups } };
  const shown = (object: JsonObject | undefined) => object && ofJson(isScale ? scaleOf(object) : object);
  const askedOf = (object: JsonObject | undefined) =>
    askedBy(
      { ...question, seen: type, attributes: inPlace, object: shown(object), oldObject: shown(old) },
      type.namespaced ? namespace : undefined,
    );
  return { validating: askedOf(validated), mutating: askedOf(changed), steps: stepsOf() };

  function stepsOf(): Steps {
    const folder = `/apis/${type.group}/${type.version}${type.namespaced ? `/namespaces/${place}` : ''}/${type.resource}`;
    const path = `${folder}/${ownName}`;
    const isInDeletion = textIn(old, 'metadata', 'deletionTimestamp') !== '';
    const query = dryRun ? 'dryRun=All' : '';
    const stored = old && withoutDeletion(old);
    const before: Step[] = stored === undefined ? [] : [{ method: 'POST', path: folder, body: stored }];
    // A list waits for the API server's cache: with an older object in it, the API server judges a deletion twice.
    if (isInDeletion) before.push({ method: 'DELETE', path }, { method: 'GET', path: folder });
    const release: Step = { method: 'PATCH', path, body: { metadata: { finalizers: null } } };
    const after: Step[] = [...(isInDeletion ? [release] : []), { method: 'DELETE', path }];
    return { before, request: theRequest(), after };

    function theRequest(): Step {
      if (operation === 'CREATE') return { method: 'POST', path: `${folder}?${query}`, body: changed ?? {} };
      if (operation === 'DELETE')
        return name === ''
          ? { method: 'DELETE', path: `${folder}?fieldSelector=metadata.name%3D${ownName}&${query}` }
          : { method: 'DELETE', path: `${path}?${query}` };
      const part = subresource === '' ? '' : `/${subresource}`;
      const body = isScale && changed !== undefined ? scaleOf(changed) : (changed ?? {});
      return { method: 'PUT', path: `${path}${part}?${query}`, body };
    }
  }
}

const EVERYBODY = 'system:authenticated';

function placed(object: JsonObject, { namespaced }: ResourceType, place: string): JsonObject {
  const metadata = objectIn(object, 'metadata');
  const labels = objectIn(metadata, 'labels');
  // The API server leaves out empty labels.
  const ofPlace: JsonObject = namespaced
    ? { namespace: place, ...(Object.keys(labels).length === 0 ? {} : { labels }) }
    : { labels: { ...labels, [PLACE_LABEL]: place } };
  return { ...object, metadata: { ...without(metadata, ['namespace', 'labels']), ...ofPlace } };
}

const named = (names: JsonObject, object: JsonObject): JsonObject => ({
  ...object,
  metadata: { ...without(objectIn(object, 'metadata'), ['name']), ...names },
});

export const withStatusOf = (written: JsonObject, old: JsonObject): JsonObject => ({
  ...withoutStatus(old),
  ...(written.status === undefined ? {} : { status: written.status }),
});

export const withoutStatus = (object: JsonObject): JsonObject => without(object, ['status']);

const withoutDeletion = (object: JsonObject): JsonObject => ({
  ...object,
  metadata: without(objectIn(object, 'metadata'), ['deletionTimestamp']),
});

const without = (object: JsonObject, names: readonly string[]): JsonObject =>
  Object.fromEntries(Object.entries(object).filter(([name]) => !names.includes(name)));

const toScale = ({ group, version, kind }: ResourceType): JsonObject => ({
  apiVersion: `${group}/${version}`,
  kind,
});

const scaleOf = (object: JsonObject): JsonObject => ({
  ...object,
  apiVersion: 'autoscaling/v1',
  kind: 'Scale',
});

export interface RealAnswer {
  readonly answer: RawAnswer;
  readonly auditId: string;
}

export type RealClient = ReturnType<typeof realClient>;

/** @param restorer whose requests the compiled policies ignore: it prepares objects */
export function realClient({ call }: Transport, token: string, restorer: string) {
  const send = async (
    { method, path, body, decimals }: Step,
    user: Asked['request']['userInfo'] | undefined,
  ) => {
    const who: Record<string, string> = user === undefined ? {} : { 'impersonate-user': user.username };
    const groups = (user?.groups ?? []).filter((group) => group !== EVERYBODY);
    const contentType = method === 'PATCH' ? 'application/merge-patch+json' : 'application/json';
    const answer = await call({
      method,
      path,
      body: body && (decimals === true ? withDecimals(toJsonText(body)) : toJsonText(body)),
      headers: {
        authorization: `Bearer ${token}`,
        'content-type': contentType,
        ...who,
        ...(groups.length === 0 ? {} : { 'impersonate-group': groups }),
      },
    });
    return { answer, auditId: answer.headers['audit-id']?.[0] ?? '' };
  };
  const preparer = { username: restorer, uid: '', groups: [], extra: {} };
  const prepare = async (step: Step): Promise<RawAnswer> => {
    const { answer } = await send(step, preparer);
    if (answer.status >= 400 && answer.status !== 404)
      throw new Error(`${step.method} ${step.path}: ${answer.text} ${toJsonText(step.body ?? {})}`);
    return answer;
  };
  return {
    send,
    ask: async ({ validating, steps: { before, request, after } }: RealRequest, decimals: boolean) => {
      let last: RawAnswer | undefined;
      for (const step of before) {
        const prepared = await prepare(step);
        if (step.method !== 'GET') last = prepared;
      }
      const version = last === undefined ? '' : textIn(parseJson(last.text), 'metadata', 'resourceVersion');
      const isUpdate = request.method === 'PUT' && request.body !== undefined;
      const sent = isUpdate ? { ...request, body: withVersion(request.body, version) } : request;
      const isTyped = validating.request.subResource === 'scale';
      const said = await send({ ...sent, decimals: decimals && !isTyped }, validating.request.userInfo);
      const generated = textIn(parseJson(said.answer.text), 'metadata', 'name');
      const isNamedLater = textIn(request.body, 'metadata', 'generateName') !== '';
      const isRenamed = isNamedLater && said.answer.status < 400;
      for (const step of after)
        await prepare(isRenamed ? { ...step, path: step.path.replace(/[^/]*$/, generated) } : step);
      return said;
    },
  };
}

const withDecimals = (json: string): string =>
  json.replaceAll(/(?<=[:[,])(-?\d{1,6})(?=[\]},])/g, (_all, digits: string) =>
    digits.endsWith('4') ? `${digits}e0` : `${digits}.0`,
  );

const withVersion = (object: JsonObject, resourceVersion: string): JsonObject => ({
  ...object,
  metadata: { ...objectIn(object, 'metadata'), resourceVersion },
});

/** What the policies say: the API server tells only the first refusal. */
export function realVerdict({ answer }: RealAnswer, audit: Readonly<Record<string, string>>): Verdict {
  const { status, text } = answer;
  const message = status < 400 ? '' : textIn(parseJson(text), 'message');
  const [, refusal] =
    /ValidatingAdmissionPolicy '[^']*' with binding '[^']*' denied request: ([^]*)$/.exec(message) ?? [];
  const failures = audit['validation.policy.admission.k8s.io/validation_failure'];
  const noted = listIn({ all: failures === undefined ? [] : parseJson(failures) }, 'all');
  const annotations = Object.entries(audit).flatMap(([key, value]) => {
    const [, own] = /^[^/]*\.gatehouse\.dev\/(.*)$/.exec(key) ?? [];
    return own === undefined ? [] : [[own, value] as const];
  });
  return {
    refusals: status < 400 ? [] : [inCommon(refusal ?? text)],
    warnings: distinct(
      warningsIn(answer).map((one) => inCommon(one.replace(/^Validation failed for [^:]*: /, ''))),
    ),
    annotations: {
      ...Object.fromEntries(annotations),
      ...violations(noted.map((one) => textIn(one, 'message')).join('; ')),
    },
  };
}

/** The object without what the API server adds, empty maps of its metadata, and a generated name. */
export function written(object: JsonObject): JsonObject {
  const metadata = objectIn(object, 'metadata');
  const own = without(metadata, [...OF_SERVER, ...(metadata.generateName === undefined ? [] : ['name'])]);
  const isEmpty = (value: unknown) => isJsonObject(value) && Object.keys(value).length === 0;
  const filled = Object.entries(own).filter(([, value]) => !isEmpty(value));
  return { ...object, metadata: Object.fromEntries(filled) };
}

const OF_SERVER = [
  ...['uid', 'resourceVersion', 'creationTimestamp', 'generation', 'managedFields'],
  ...['deletionTimestamp', 'deletionGracePeriodSeconds'],
];

const SCALE = { specReplicasPath: '.spec.replicas', statusReplicasPath: '.status.replicas' };

// Where a kind has a scale, its spec must be a map.
const versions = [
  versionOf('v1', ANY, { subresources: { status: {} } }),
  versionOf(SCALED, ANY, { storage: false, subresources: { status: {}, scale: SCALE } }),
];

export const KINDS: readonly KubeObject[] = [
  resourceOf(GROUP, 'servers', 'Server'),
  resourceOf(GROUP, 'datacenters', 'Datacenter', false),
  resourceOf(GROUP, 'classes', 'Class'),
].map((kind) => definitionOf(kind, { versions }));

/** Everybody may do everything: only the policies judge. */
const apiGroup = 'rbac.authorization.k8s.io';
export const OPEN: KubeObject = {
  apiVersion: `${apiGroup}/v1`,
  kind: 'ClusterRoleBinding',
  metadata: { name: 'everybody' },
  ...{
    roleRef: { apiGroup, kind: 'ClusterRole', name: 'cluster-admin' },
    subjects: [{ apiGroup, kind: 'Group', name: 'system:authenticated' }],
  },
};

/** Of all policies that name another namespace, or a cluster-scoped object. */
export const SHARED_PARAMS: readonly KubeObject[] = [
  {
    apiVersion: `${GROUP}/v1`,
    kind: 'Class',
    metadata: { name: 'limits', namespace: 'platform' },
    ...{ spec: { most: 3, tiers: ['gold'] } },
  },
  {
    apiVersion: `${GROUP}/v1`,
    kind: 'Datacenter',
    metadata: { name: 'limits' },
    ...{ spec: { most: '3', tiers: [] } },
  },
];

/** What Gatehouse installs, without its owner: the garbage collector would delete it. */
export function unowned(pair: NativePair, name: string) {
  const { policy, binding } = installedOf(pair, { name, uid: '1' });
  const free = (object: KubeObject): KubeObject => ({
    ...object,
    metadata: { ...object.metadata, ownerReferences: [] },
  });
  return { policy: free(policy), binding: free(binding) };
}
