import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test, vi } from 'vitest';
import { parseAllDocuments } from 'yaml';
import type { OwnerReference } from '../json/kube-object.ts';
import { adviceOn } from '../kube/refusal-advice.ts';
import { createRefusedWrites, refusable, writePossible, WriteRefused } from './write-refused.ts';
import { ApiError, NetworkError } from '../kube/api-error.ts';

const START = Date.parse('2026-11-21T12:00:00Z');

function refusals() {
  const clock = { ms: START };
  const { attempt, over } = createRefusedWrites(() => new Date(clock.ms));
  const isConfirmed = (key: string, error: Error) =>
    attempt(key, () => Promise.reject(error)).then(
      () => true,
      () => false,
    );
  const refuse = (message = 'no') => isConfirmed('a', new WriteRefused(message));
  return { clock, isConfirmed, over, refuse };
}

test('a refusal that lasts two seconds is confirmed, and not before', async () => {
  const { clock, refuse } = refusals();
  expect(await refuse()).toBe(false);
  clock.ms += 1_999;
  expect(await refuse()).toBe(false);
  clock.ms += 1;
  expect(await refuse()).toBe(true);
  clock.ms -= 400 * 86_400_000; // C1: a clock that jumps back
  expect(await refuse()).toBe(false);
  clock.ms += 2_000;
  expect(await refuse()).toBe(true);
});

test('another refusal, another key and a successful write restart the timer', async () => {
  const { clock, isConfirmed, over, refuse } = refusals();
  await refuse();
  clock.ms += 10_000;
  expect(await isConfirmed('b', new WriteRefused('no'))).toBe(false);
  expect(await refuse('not that either')).toBe(false);
  over('a');
  clock.ms += 10_000;
  expect(await refuse('not that either')).toBe(false);
});

const request = { method: 'PATCH', path: '/api/v1/namespaces/shop/configmaps/a' };
const answered = (code: number, reason: string, message: string) =>
  new ApiError(request, { code, status: { reason, message } });

async function outcome(error: unknown): Promise<unknown> {
  return await refusable(() => Promise.reject(error as Error)).catch((thrown: unknown) => thrown);
}

test('a refusal contains the remedy and the message of the API server', async () => {
  const refused = await outcome(answered(422, 'Invalid', 'data: Too long'));
  expect(refused).toBeInstanceOf(WriteRefused);
  expect(String(refused)).toContain('Correct the object, or the admission policy that refuses it.');
  expect(String(refused)).toContain(`It says: PATCH ${request.path}: 422 Invalid: data: Too long`);
});

const rbac = (permission: string) => {
  const [, verb = '', resource = '', group = ''] = /^(\S+) ([^.]+)\.?(.*)$/.exec(permission) ?? [];
  return `x is forbidden: User "g" cannot ${verb} resource "${resource}" in API group "${group}" in the namespace "shop"`;
};
const policy = (name: string, problem: string) =>
  `x is forbidden: ValidatingAdmissionPolicy '${name}' with binding '${name}' denied request: ${problem}`;

test.each([
  [rbac('update secrets'), 'Permit Gatehouse to update secrets (deploy/base).'],
  [rbac('delete secrets'), 'Permit Gatehouse to delete secrets (deploy/components/delete-secrets).'],
  [
    `secrets "a" is forbidden: cannot set an ownerRef on a resource you can't delete: , <nil>`,
    'Permit Gatehouse to delete secrets (deploy/components/delete-secrets): the admission plugin Owner',
  ],
  [
    `validatingadmissionpolicies.admissionregistration.k8s.io "a" is forbidden: cannot set an ownerRef on a resource`,
    '(deploy/components/compile-policies): the admission plugin Owner',
  ],
  [
    policy('gatehouse-backstop-webhooks', 'Gatehouse changes the bundles only of webhooks that ask for it'),
    'deploy/components/cert-manager-compat',
  ],
  [policy('no-tls', 'no'), 'Change the admission policy no-tls, or exclude the object from it.'],
  [
    'admission webhook "labels.example.com" denied the request: no',
    'Change the admission webhook labels.example.com, or exclude the object from it.',
  ],
  ['secrets "a" is forbidden: exceeded quota: few, requested: secrets=1', 'Raise the ResourceQuota few.'],
  ['no', 'Permit it, or look for the quota or admission policy that forbids it.'],
])('the remedy of 403 %j', async (message, advice) => {
  expect(String(await outcome(answered(403, 'Forbidden', message)))).toContain(advice);
});

test('a long word in a refusal does not block the leader', () => {
  const began = performance.now();
  expect(adviceOn(`Invalid value: ${'a.'.repeat(2_000)}`, 422)).toContain('Correct the object');
  expect(performance.now() - began).toBeLessThan(1_000);
});

interface Role {
  readonly rules?: readonly Readonly<Record<'apiGroups' | 'resources' | 'verbs', readonly string[]>>[];
}

test.each([
  'create secrets',
  'update secrets',
  'delete secrets',
  'patch services',
  'watch namespaces',
  'delete configmaps',
  'patch apiservices.apiregistration.k8s.io',
  'list certificates.cert-manager.io',
  'create mutatingadmissionpolicybindings.admissionregistration.k8s.io',
  'update clusterpolicyreports.wgpolicyk8s.io',
  'list reports.openreports.io',
])('the manifests that the remedy names grant %s', (permission) => {
  const [, folder = ''] = /\((deploy\/[^)]*)\)/.exec(adviceOn(rbac(permission))) ?? [];
  const files = readdirSync(folder).filter((file) => file.endsWith('.yaml'));
  const documents = files.flatMap((file) => parseAllDocuments(readFileSync(join(folder, file), 'utf8')));
  const granted = documents
    .flatMap((document) => (document.toJS() as Role).rules ?? [])
    .flatMap(({ apiGroups, resources, verbs }) => {
      const kinds = resources.flatMap((resource) => apiGroups.map((group) => `${resource}.${group}`));
      return verbs.flatMap((verb) => kinds.map((kind) => `${verb} ${kind}`));
    });
  expect(granted).toContain(permission.includes('.') ? permission : `${permission}.`);
});

test.each([
  ['a conflict', answered(409, 'Conflict', 'the object has been modified')],
  ['a failing server', answered(500, 'InternalError', 'oops')],
  ['a broken connection', new NetworkError(request, 'connection', 'reset')],
])('%s is rethrown unchanged', async (_what, error) => {
  expect(await outcome(error)).toBe(error);
});

interface Labelled {
  readonly metadata: {
    readonly labels?: Record<string, string>;
    readonly ownerReferences?: readonly OwnerReference[];
  };
  readonly data: string;
}

const labels = { ours: 'true' };
const ownerReferences = [{ apiVersion: 'v1', kind: 'Service', name: 'db', uid: 'u1' }];
const wanted: Labelled = { metadata: { labels, ownerReferences }, data: 'new' };
const live: Labelled = { metadata: {}, data: 'old' };

describe('what the API server refuses', () => {
  const hasOwner = ({ metadata }: Labelled) => metadata.ownerReferences !== undefined;
  const hasLabel = ({ metadata }: Labelled) => metadata.labels !== undefined;
  const hasEither = (object: Labelled) => hasOwner(object) || hasLabel(object);
  const answer = async (object: Labelled, isRefused: boolean): Promise<Labelled> => {
    if (isRefused) throw answered(403, 'Forbidden', 'no');
    return await Promise.resolve(object);
  };

  test.each([
    ['nothing', () => false, live, { labels, ownerReferences }, undefined],
    ['owners', hasOwner, live, { labels }, ['ownerReferences']],
    ['labels', hasLabel, live, { ownerReferences }, ['labels']],
    ['both', hasEither, live, {}, ['ownerReferences', 'labels']],
    ['labels of a new object', hasLabel, undefined, { ownerReferences }, ['labels']],
  ])('%s: the rest is written', async (_what, refuses, before, metadata, fields) => {
    const written = await writePossible(before, wanted, (object) => answer(object, refuses(object)));
    expect(written.object).toEqual({ metadata, data: 'new' });
    expect(written.refused?.fields).toEqual(fields);
  });

  test.each([
    ['everything', () => true, live],
    ['the owner of a new object, which would outlive it', hasOwner, undefined],
  ])('%s: nothing is written', async (_what, refuses, before) => {
    const written = writePossible(before, wanted, (object) => answer(object, refuses(object)));
    await expect(written).rejects.toThrow(WriteRefused);
  });

  test('if nothing but the refused part changes, one write is tried', async () => {
    const before = { ...wanted, metadata: { labels } };
    const write = vi.fn((object: Labelled) => answer(object, true));
    expect(await writePossible(before, wanted, write)).toMatchObject({ object: before, refused: {} });
    expect(write).toHaveBeenCalledOnce();
  });
});
