import { expect, test } from 'vitest';

import { rememberingYes } from './start-controllers.ts';

test('only what was not permitted or not answered is asked again', async () => {
  const asked: string[] = [];
  let fails = true;
  const may = rememberingYes(({ verb }) => {
    asked.push(verb);
    if (verb === 'list' && fails) return Promise.reject(new Error('connection refused'));
    return Promise.resolve(verb !== 'watch');
  });
  const ask = (verb: string) => may({ verb, group: '', resource: 'secrets' });
  await expect(ask('list')).rejects.toThrow('connection refused');
  expect([await ask('get'), await ask('watch')]).toEqual([true, false]);
  fails = false;
  expect([await ask('get'), await ask('list'), await ask('watch')]).toEqual([true, true, false]);
  expect(asked).toEqual(['list', 'get', 'watch', 'list', 'watch']);
});
