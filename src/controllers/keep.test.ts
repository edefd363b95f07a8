import { expect, test } from 'vitest';
import { again, configMap, run, team, verbs } from '../../test/support/teams.ts';
import { define } from '../../test/support/teams.ts';

const applies = define(async ({ apply }) => {
  for (const name of ['ann', 'bob']) await apply(configMap(name));
});

test('an object that a pass keeps is neither written nor deleted', async () => {
  const first = await run(applies, team());
  const second = await again(
    define(({ keep }) => keep(configMap('ann', { data: { other: 'x' } }))),
    first,
  );
  expect(verbs(second)).toEqual(['delete configmaps teams/bob']);
});

test('keep does not create, and apply may follow', async () => {
  const kept = define(async ({ apply, keep }) => {
    keep(configMap('ann'));
    keep(configMap('never'));
    await apply(configMap('ann'));
    keep(configMap('ann'));
  });
  expect(verbs(await run(kept, team())).filter((verb) => !verb.startsWith('status'))).toEqual([
    'apply configmaps teams/ann',
  ]);
});

test('a kind that is not in owns cannot be kept', async () => {
  const { error } = await run(
    define(({ keep }) => keep({ apiVersion: 'v1', kind: 'Secret', metadata: { name: 'x', namespace: 'y' } })),
    team(),
  );
  expect(error?.message).toContain('is not in owns');
});
