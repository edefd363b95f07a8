import { expect, test } from 'vitest';

import { FOREIGN_STACKS, type Meeting, nodeVerdict } from '../trust-verdicts.ts';
import { SERVER_NAME } from './fixtures.ts';

interface Cell {
  readonly client: string | number;
  readonly server: string | number;
  /** Default: true. */
  readonly trusted?: boolean;
}

/** Each TLS stack here must trust the server of a cell, or reject it. */
export function testTrust<C extends Cell>(given: readonly C[], meetingOf: (cell: C) => Meeting): void {
  const cells = given.map((cell) => ({ ...cell, trusted: cell.trusted ?? true }));
  test.each(cells)('a client of $client trusts a server of $server over TLS: $trusted', async (cell) => {
    const { server, bundle } = meetingOf(cell);
    const verdict = await nodeVerdict(server, bundle, SERVER_NAME);
    expect(verdict === 'ok', verdict).toBe(cell.trusted);
  });

  for (const { name, missing, judge } of FOREIGN_STACKS)
    test.skipIf(missing !== undefined)(`${name} gives the same results`, { timeout: 60_000 }, async () => {
      const verdicts = await judge(cells.map(meetingOf), SERVER_NAME);
      expect(cells.map((cell, index) => ({ ...cell, trusted: verdicts[index] }))).toEqual(cells);
    });
}
