import { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { expect, test, vi } from 'vitest';

import { streamEvents } from './event-stream.ts';

test('a viewer who disconnects before the first event takes no slot', async () => {
  const response = new ServerResponse(new IncomingMessage(new Socket()));
  response.destroy();
  const write = vi.spyOn(response, 'write');
  const read = () => Promise.reject(new Error('unexpected call'));
  await streamEvents(response, read, '', 1, new AbortController().signal);
  expect(write).not.toHaveBeenCalled();
});
