/** `gatehouse serve`: a replica together with the parts that only people use. */
import type { Config } from '../config/config.ts';
import { serve as serveReplica, type ServeOptions } from '../runtime/serve.ts';
import { serveFromHere } from './dev/dev-session.ts';
import { createStatusPage } from './inspect/page/status-page.ts';

/** Runs until the process is told to end. Rejects when the replica cannot start or cannot go on. */
export const serve = (
  config: Config,
  options: Omit<ServeOptions, 'statusPage' | 'devSession'> = {},
): Promise<void> =>
  serveReplica(config, { ...options, statusPage: createStatusPage, devSession: serveFromHere });
