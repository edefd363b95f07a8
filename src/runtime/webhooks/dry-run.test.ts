import { expect, test } from 'vitest';
import { ApiError, compiled, containing, NEVER } from '../../../test/support/runtime/fixtures.ts';
import type { KubeObject } from '../../json/kube-object.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Resource } from '../../kube/object.ts';
import { createDryRun } from './dry-run.ts';

const service = { namespace: 'gatehouse-system', name: 'gatehouse', port: 443 };
const target = { service, ownNamespace: service.namespace };
const policy = compiled({ defaults: [{ path: 'spec.tier', value: 'x' }] });

test.each([
  ['both configurations are tried, and nothing is stored', 0, undefined, 2],
  ['what the API server finds invalid is an objection', 422, 'no good', 1],
  ['a replica that lacks permission to write webhook configurations accepts everything', 403, undefined, 2],
])('%s', async (_what, code, objection, count) => {
  const tried: unknown[] = [];
  const create = (kind: Resource, object: KubeObject, options: { readonly dryRun?: boolean } = {}) => {
    tried.push([kind.resource, options.dryRun, object.metadata?.generateName]);
    return code === 0 ? Promise.resolve(object) : Promise.reject(new ApiError(code, 'no good'));
  };
  const dryRun = createDryRun({ create: create as KubeClient['create'] }, target);
  expect(await dryRun(policy, NEVER)).toEqual(objection === undefined ? undefined : containing(objection));
  const resources = ['mutatingwebhookconfigurations', 'validatingwebhookconfigurations'];
  expect(tried).toEqual(resources.slice(0, count).map((resource) => [resource, true, 'gatehouse-']));
});
