/**
 * Preloaded into a replica: connections to 198.18.0.0/16 (RFC 2544) go to 127.18.0.0/16, because API servers
 * refuse loopback addresses in EndpointSlices.
 */
import { syncBuiltinESMExports } from 'node:module';
import net, { type NetConnectOpts } from 'node:net';

const { connect } = net;

net.connect = ((options: NetConnectOpts, onConnect?: () => void) =>
  connect(
    'host' in options && options.host !== undefined
      ? { ...options, host: options.host.replace(/^198\.18\./, '127.18.') }
      : options,
    onConnect,
  )) as typeof connect;
syncBuiltinESMExports();
