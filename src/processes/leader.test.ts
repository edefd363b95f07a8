import { expect, test } from 'vitest';

import { whenCompiled } from './leader.ts';

test('a leader without policies starts its controllers, although the records of their reviews are listed last', async () => {
  const listed = Promise.withResolvers<undefined>();
  let problem: string | undefined = 'Secret gatehouse-reads has not been listed yet';
  let isCompiled = false;
  const replica = {
    policies: { whenSynced: () => Promise.resolve() },
    records: { whenSynced: () => listed.promise },
    checks: { policies: () => problem },
    registry: { subscribe: () => undefined },
  };
  const compiled = whenCompiled(replica, new AbortController().signal).then(() => (isCompiled = true));
  await new Promise(setImmediate);
  expect(isCompiled).toBe(false);
  problem = undefined;
  listed.resolve(undefined);
  await compiled;
  expect(isCompiled).toBe(true);
});
