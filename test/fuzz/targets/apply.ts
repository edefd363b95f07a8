/** Server-side apply and patches in the sandbox. */
import { placeOf } from '../../../src/machinery/storage/stored.ts';
import fc from 'fast-check';

import { toJsonText } from '../../../src/json/json-text.ts';
import { isEqual, isJsonObject, type JsonObject, type JsonValue } from '../../../src/json/json.ts';
import { ofJson, toJson, type ApiObject } from '../../../src/machinery/api-object.ts';
import { ApiFailure } from '../../../src/machinery/failure.ts';
import { applyConfiguration } from '../../../src/machinery/managed-fields/apply.ts';
import { by, widget } from '../../support/sandbox/managed-fields.ts';
import type { Api, ApiRequest } from '../../../src/sandbox/pipeline/context.ts';
import { handle } from '../../../src/sandbox/pipeline/handle.ts';
import type { ResourceRequest } from '../../../src/machinery/request.ts';
import { CONFIG_MAPS, createWebhookAdmission } from '../../support/sandbox/webhooks.ts';
import { mutatedObject } from '../mutated.ts';
import { answerOf, fuzzTarget, hold, laterAnswerOf } from '../target.ts';

const CONFIGURATION: JsonObject = {
  spec: {
    size: 1,
    word: 'w',
    notes: { a: '1', b: '2' },
    sealed: { a: '1' },
    steps: ['x', 'y'],
    tags: ['a', 'b'],
    ports: [
      { port: 80, name: 'http' },
      { port: 80, protocol: 'UDP' },
    ],
    free: { k: [1, { l: null }] },
    anyValue: '10%',
  },
};

const isFailure = (error: unknown) => error instanceof ApiFailure;

const widgetOf = ({ spec }: JsonObject): ApiObject => widget(isJsonObject(spec) ? spec : undefined);

/**
 * Applying a configuration again changes nothing, for one manager and for two. The live object is never modified in
 * place.
 */
export const apply = fuzzTarget(
  'sandbox: server-side apply',
  8,
  fc.tuple(mutatedObject([CONFIGURATION]), mutatedObject([CONFIGURATION]), fc.boolean()),
  ([first, second, force]) => {
    const wish = (live: ApiObject | undefined, input: JsonObject, manager: string) => {
      const before = live === undefined ? '' : toJsonText(toJson(live));
      const object = answerOf(
        () => applyConfiguration({ live, applied: widgetOf(input), force, ...by(manager) }).object,
        isFailure,
      );
      hold(
        live === undefined || toJsonText(toJson(live)) === before,
        () => 'the apply changed the live object in place',
      );
      return object;
    };
    const live = wish(undefined, first, 'a');
    if (live === undefined) return;
    hold(wish(live, first, 'a') === live, () => 'the second apply changes the object');
    const next = wish(live, second, 'b');
    if (next === undefined) return;
    hold(wish(next, second, 'b') === next, () => 'the second apply of the second manager changes the object');
    // An empty configuration gives up all fields of the manager. Applying it again changes nothing.
    const empty = wish(next, {}, 'b');
    if (empty !== undefined)
      hold(wish(empty, {}, 'b') === empty, () => 'the second apply without fields changes the object');
  },
);

const LIVE: JsonObject = {
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: {
    name: 'a',
    namespace: 'shop',
    uid: 'u',
    creationTimestamp: '2026-01-01T00:00:00Z',
    labels: { team: 'blue' },
    finalizers: ['example.com/keep'],
  },
  data: { k: 'v', other: 'w' },
};

const MERGE: JsonObject = {
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { labels: { team: null, new: 'x' }, annotations: { a: 'b' } },
  data: { k: null, new: 'v' },
};

const STEPS: readonly JsonObject[] = [
  { op: 'add', path: '/data/new', value: 'x' },
  { op: 'remove', path: '/data/k' },
  { op: 'replace', path: '/metadata/labels/team', value: 'red' },
  { op: 'move', from: '/data/k', path: '/data/l' },
  { op: 'test', path: '/data/other', value: 'w' },
];

const patches: fc.Arbitrary<readonly [string, JsonValue]> = fc.oneof(
  fc.tuple(fc.constant('application/json-patch+json'), fc.array(mutatedObject(STEPS), { maxLength: 4 })),
  fc.tuple(
    fc.constantFrom(
      'application/merge-patch+json',
      'application/strategic-merge-patch+json',
      'application/apply-patch+yaml',
    ),
    mutatedObject([MERGE]),
  ),
);

const KEY = { namespace: 'shop', name: 'a' };

function createStored() {
  const court = createWebhookAdmission({});
  const { storage, registry, admission } = court;
  storage.create(placeOf(CONFIG_MAPS), ofJson(LIVE));
  const api: Api = {
    registry,
    storage,
    admission,
    convert: (objects) => Promise.resolve(objects),
    now: () => new Date('2026-01-02T03:04:05Z'),
    newUid: () => 'uid',
    newSuffix: () => 'xxxxx',
    issueToken: () => '',
    authorize: () => ({ allowed: true, reason: '' }),
    escalationProblem: () => undefined,
  };
  const send = async (contentType: string, body: JsonValue) => {
    const info: ResourceRequest = {
      kind: 'resource',
      verb: 'patch',
      group: '',
      version: 'v1',
      resource: 'configmaps',
      subresource: '',
      path: '',
      ...KEY,
    };
    const request: ApiRequest = {
      ...{ info, contentType, accept: undefined, userAgent: 'tester/1' },
      query: new URLSearchParams({ fieldManager: 'tester' }),
      body: Buffer.from(toJsonText(body)),
      user: { username: 'alice', groups: [] },
      notes: court.notes,
    };
    return await handle(api, request);
  };
  return { send, stored: () => storage.get(placeOf(CONFIG_MAPS), KEY) };
}

/**
 * A rejected patch leaves the stored object unchanged. An accepted patch stores a new object and does not modify the
 * old one.
 */
export const storedPatches = fuzzTarget(
  'sandbox: patch of what is stored',
  5,
  fc.array(patches, { minLength: 1, maxLength: 3 }),
  async (bodies) => {
    const { send, stored } = createStored();
    for (const [contentType, body] of bodies) {
      const before = stored();
      if (before === undefined) return;
      const text = toJsonText(toJson(before));
      const answer = await laterAnswerOf(() => send(contentType, body), isRefusal);
      const after = stored();
      hold(toJsonText(toJson(before)) === text, () => 'the patch changed the stored object in place');
      if (answer === undefined) hold(after === before, () => 'a refused patch was stored');
      else if (after !== before && after !== undefined) {
        hold(
          after.metadata.resourceVersion !== before.metadata.resourceVersion,
          () => 'another object with the same resourceVersion',
        );
        hold(
          isEqual(
            ['name', 'namespace', 'uid', 'creationTimestamp'].map(
              (name) => Reflect.get(after.metadata, name) as unknown,
            ),
            ['name', 'namespace', 'uid', 'creationTimestamp'].map(
              (name) => Reflect.get(before.metadata, name) as unknown,
            ),
          ),
          () => 'the identity of the object has changed',
        );
      }
    }
  },
);

/** Client errors. A failed merge in an apply is a 500 in the API server too. */
const isRefusal = (error: unknown) =>
  error instanceof ApiFailure &&
  (error.status.code < 500 || error.message.includes('failed to create typed'));
