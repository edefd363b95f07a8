/** `gatehouse webhook`, `controllers` and `serve`, with the status page and development sessions. */
import type { ConfigOf } from '../config/config.ts';
import { controllers as runControllers } from '../processes/controllers.ts';
import { serve as runBoth, type ServeOptions } from '../processes/serve.ts';
import { webhook as runWebhook } from '../processes/webhook.ts';
import { runDevSession } from './dev/dev-session.ts';
import { createStatusPage } from './inspect/page/status-page.ts';

type Processes = {
  readonly [Name in 'webhook' | 'controllers' | 'serve']: (
    config: ConfigOf<Name>,
    options: Omit<ServeOptions, 'statusPage' | 'devSession'>,
  ) => Promise<void>;
};

export const processes: Processes = {
  webhook: runWebhook,
  controllers: (config, options) => runControllers(config, { ...options, statusPage: createStatusPage }),
  serve: (config, options) =>
    runBoth(config, { ...options, statusPage: createStatusPage, devSession: runDevSession }),
};
