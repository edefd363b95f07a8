import { expect, test } from 'vitest';

import {
  ApiError,
  compiled,
  containing,
  NEVER,
  OWN_NAMESPACE,
} from '../../../test/support/runtime/fixtures.ts';
import { createDryRun } from './dry-run.ts';

const target = {
  service: { namespace: OWN_NAMESPACE, name: 'gatehouse', port: 443 },
  ownNamespace: OWN_NAMESPACE,
};
const policy = compiled({ defaults: [{ path: 'spec.tier', value: 'x' }] });

/** Each write fails with the code; 0 is success. */
async function dryRunWith(code: number) {
  const tried: unknown[] = [];
  const dryRun = createDryRun(
    {
      create: (kind, object, options) => {
        tried.push([kind.resource, options?.dryRun, object.metadata?.generateName]);
        return code === 0 ? Promise.resolve(object) : Promise.reject(new ApiError(code, 'no good'));
      },
    },
    target,
  );
  return { objection: await dryRun(policy, NEVER), tried };
}

test('the webhooks of both configurations are tried, and nothing is stored', async () => {
  expect(await dryRunWith(0)).toEqual({
    objection: undefined,
    tried: [
      ['mutatingwebhookconfigurations', true, 'gatehouse-'],
      ['validatingwebhookconfigurations', true, 'gatehouse-'],
    ],
  });
});

test.each([
  ['what the API server finds invalid is an objection', 422, containing('no good')],
  ['a replica that may not write webhook configurations objects to nothing', 403, undefined],
])('%s', async (_what, code, expected) => {
  expect((await dryRunWith(code)).objection).toEqual(expected);
});

test('other errors are no objections', async () => {
  await expect(dryRunWith(503)).rejects.toMatchObject({ code: 503 });
});
