// suite: shared-plane, sandbox: long
/** The status page of a replica: which viewers the API server admits, and what they see. */
import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, expect, test } from 'vitest';

import type { KubeObject } from '../../src/json/kube-object.ts';
import { STATUS_AUDIENCE } from '../../src/server/status-page/credentials.ts';
import {
  ADMISSION_POLICIES,
  CLUSTER_ROLE_BINDINGS,
  createNamespace,
  type Cluster,
} from '../support/cluster.ts';
import { testsSandbox } from '../support/control-plane.ts';
import { enforceExamples, startGatehouse } from '../support/gatehouse-cluster.ts';
import type { Replica } from '../support/gatehouse.ts';
import { eventually } from '../support/processes.ts';
import {
  createAccount,
  letLook,
  statusUrl,
  tokenFor,
  VIEWERS,
  visit,
  listen,
} from '../support/status-viewers.ts';

/** Gatehouse caches the API server's answers for ten seconds. */
const SOON = { timeoutMs: 60_000, everyMs: 500 };

let cluster: Cluster;
let replica: Replica;

beforeAll(async () => {
  ({ cluster, replica } = await startGatehouse({ settings: { 'status-page': 'true' } }));
  await enforceExamples(cluster);
  await createNamespace(cluster, VIEWERS);
  await createAccount(cluster, 'looker');
  await createAccount(cluster, 'stranger');
});

afterAll(() => cluster.stop());

const seen = async (token: string, status: number) =>
  await eventually(
    `an answer of ${status}`,
    async () => {
      const answer = await visit(replica, token);
      if (answer.status !== status) throw new Error(`${answer.status}: ${answer.body.slice(-400)}`);
      return answer;
    },
    SOON,
  );

test('without the permission to review tokens, Gatehouse admits no viewer, and rejects no token as invalid', async () => {
  const { status, headers, body } = await visit(replica, await tokenFor(cluster, 'looker'));
  expect(status).toBe(503);
  expect(headers.get('retry-after')).toBe('10');
  expect(body).not.toContain('tokenreviews');
  await eventually('the log gives the reason', () =>
    readFileSync(replica.program.logFile, 'utf8').includes('tokenreviews'),
  );
  await cluster.applyFolder('components/status-page');
});

test('a viewer without a token sees a form, and nothing of the cluster', async () => {
  const { status, headers, body } = await visit(replica, undefined);
  expect(status).toBe(401);
  expect(headers.get('www-authenticate')).toBe('Bearer realm="gatehouse"');
  expect(body).toContain('<form method="post" action="/status/login"');
  expect(body).not.toContain('gatehouse-system');
  expect((await visit(replica, 'made-up')).status).toBe(401);
});

test('a viewer without permission sees their user name, and the role that is missing', async () => {
  const { body } = await seen(await tokenFor(cluster, 'stranger'), 403);
  expect(body).toContain(`system:serviceaccount:${VIEWERS}:stranger lacks permission to view this page`);
  expect(body).toContain('gatehouse-status-viewer');
});

test('a viewer with permission sees the content of gatehouse status, with a token for the API server or for this page alone', async () => {
  await letLook(cluster, 'looker');
  for (const audience of [undefined, STATUS_AUDIENCE]) {
    const { headers, body } = await seen(await tokenFor(cluster, 'looker', audience), 200);
    expect(headers.get('cache-control')).toBe('no-store');
    expect(headers.get('content-security-policy')).toContain("default-src 'none'");
    for (const part of ['authority', 'serving-certs', 'targets', 'policies', 'windows', 'leader'])
      expect(body).toContain(`<section id="${part}"`);
    expect(body).toMatch(/Generation [0-9a-f]{8} · active/);
    expect(body).toContain('<th scope="row" role="rowheader">servers</th>');
    expect(body).not.toContain('PRIVATE KEY');
    expect(body).not.toContain('permission to read');
  }
});

test.skipIf(testsSandbox())(
  'a token for another audience is refused (not on the sandbox, which signs no tokens)',
  async () => {
    expect((await visit(replica, await tokenFor(cluster, 'looker', 'another-audience'))).status).toBe(401);
  },
);

test('an open page receives a new policy, and the end of the permission', async () => {
  await createAccount(cluster, 'listener');
  await letLook(cluster, 'listener');
  const token = await tokenFor(cluster, 'listener', STATUS_AUDIENCE);
  await seen(token, 200);
  const { type, heard } = await listen(statusUrl(replica), { authorization: `Bearer ${token}` });
  expect(type).toBe('text/event-stream; charset=utf-8');
  await eventually('the first event', () => heard.text.includes('event: checked'), SOON);
  await cluster.admin.create<KubeObject>(ADMISSION_POLICIES, {
    metadata: { name: 'just-made' },
    ...{
      spec: {
        match: { apiGroups: [''], resources: ['configmaps'] },
        validate: { rules: [{ name: 'any', expression: 'true', message: 'no' }] },
      },
    },
  });
  await eventually('the policy', () => heard.text.includes('just-made'), SOON);
  expect(heard.over).toBe(false);
  await cluster.admin.delete(CLUSTER_ROLE_BINDINGS, { name: 'status-viewer-listener' });
  await eventually('the end', () => heard.over, SOON);
  expect((await visit(replica, token)).status).toBe(403);
});
