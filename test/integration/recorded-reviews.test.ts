/** Recorded requests of kube-apiserver 1.37: Gatehouse answers them, and the API server's rules judge the answers. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { compiled, definitionOf } from '../support/admission/conversion.ts';
import { noConversions } from '../support/server/conversion.ts';
import { judgeAdmission, judgeConversion, patched, type Webhook } from '../support/review-checker.ts';
import type { RecordedReview } from '../support/reviews/recorder.ts';
import { post } from '../support/webhook-client.ts';
import {
  ENTRY,
  governedBy,
  policy,
  runWebhookServer,
  serversPolicy,
  type Running,
} from '../support/webhook-server.ts';

interface Review {
  readonly request: {
    readonly operation: string;
    readonly resource: { readonly resource: string };
    readonly subResource?: string;
    readonly object: { readonly metadata: object; readonly spec?: Record<string, unknown> } | null;
    readonly oldObject: { readonly spec?: Record<string, unknown> } | null;
  };
}

const recorded = readFileSync(join(import.meta.dirname, '../data/admission-reviews-1.37.jsonl'), 'utf8')
  .trim()
  .split('\n')
  .map((line) => JSON.parse(line) as RecordedReview); // a file of this repository
const admissions = recorded.filter(({ path }) => !path.startsWith('/convert'));
const conversions = recorded.filter(({ path }) => path.startsWith('/convert'));

/** A policy on all other recorded kinds, so that some policy judges each review. */
const others = policy('others', {
  match: {
    apiGroups: ['', 'apiextensions.k8s.io', 'infra.example.com'],
    resources: [
      ...['namespaces', 'configmaps', 'serviceaccounts', 'serviceaccounts/*', 'pods', 'pods/*'],
      ...['customresourcedefinitions', 'servers/scale'],
    ],
    operations: ['CREATE', 'UPDATE', 'DELETE', 'CONNECT'],
  },
  validate: { immutable: ['spec.scope'] },
});

let server: Running;
beforeAll(async () => {
  const definition = definitionOf([{ name: 'v1' }, { name: 'v1beta1' }]);
  const { converter } = compiled({ hub: 'v1', versions: [{ name: 'v1beta1' }] }, definition);
  server = await runWebhookServer({
    ...governedBy([serversPolicy, others]),
    conversion: { ...noConversions, lookUp: () => ({ kind: 'found', converter }) },
  });
});
afterAll(() => server.app.close());

const webhookOf = ({ path }: RecordedReview): Webhook => (path.startsWith('/mutate') ? 'mutate' : 'validate');
const titled = (requests: readonly RecordedReview[]) =>
  requests.map((request, index) => [`${index + 1} ${request.path} ${request.step}`, request] as const);

/** Each policy has its own entry, because they name different groups. */
function entryOf({ body }: RecordedReview): string {
  const { resource, subResource } = (JSON.parse(body) as Review).request;
  return resource.resource === 'servers' && subResource !== 'scale' ? ENTRY : others.entryId;
}

async function replay(request: RecordedReview) {
  const { body } = request;
  const path = request.path.replace(/^\/(mutate|validate)/, (webhook) => `${webhook}/${entryOf(request)}`);
  const headers = { ...request.headers, 'content-length': String(Buffer.byteLength(body)) };
  const answer = await post(server, path, body, { headers });
  expect(answer).toMatchObject({
    status: 200,
    headers: { 'content-type': expect.stringMatching(/^application\/json/) as string },
  });
  return answer.body;
}

/** The expected object: a Server without a tier gets one, unless it is a Scale or is being deleted. */
function wanted({ request: { object, operation, resource, subResource } }: Review): unknown {
  if (object === null || resource.resource !== 'servers' || subResource === 'scale') return object;
  if (operation !== 'CREATE' && operation !== 'UPDATE') return object;
  if ('deletionTimestamp' in object.metadata || object.spec?.tier !== undefined) return object;
  return { ...object, spec: { ...object.spec, tier: 'standard' } };
}

test('the recording contains the requests of an API server', () => {
  expect(admissions).toHaveLength(56);
  expect(conversions).toHaveLength(24);
  for (const { headers, body } of recorded) {
    expect(Buffer.byteLength(body)).toBe(Number(headers['content-length']));
  }
});

test.each(titled(admissions))('%s', async (_title, request) => {
  const { body } = request;
  const review = JSON.parse(body) as Review;
  const verdict = judgeAdmission(webhookOf(request), body, await replay(request));

  const { object, oldObject, operation } = review.request;
  const before = oldObject?.spec?.datacenter;
  const moves = operation === 'UPDATE' && before !== undefined && before !== object?.spec?.datacenter;
  expect(verdict.allowed).toBe(webhookOf(request) === 'mutate' || !moves);
  if (webhookOf(request) === 'mutate') expect(patched(object, verdict.patch)).toEqual(wanted(review));
});

test('the replay has both verdicts and patches', () => {
  const outcomes = new Set(server.recorded.admissions.map(({ webhook, outcome }) => `${webhook} ${outcome}`));
  expect([...outcomes].sort()).toEqual(['mutate allow', 'validate allow', 'validate deny']);
  expect(server.recorded.lines.some(({ patched: paths }) => Array.isArray(paths))).toBe(true);
});

test.each(titled(conversions))('%s', async (_title, request) => {
  expect(judgeConversion(request.body, await replay(request))).toBeUndefined();
});
