/** The server SDK of OpenFeature, in this process. */
import { OpenFeature, ProviderEvents, type JsonValue } from '@openfeature/server-sdk';
import { StrataProvider } from '../../../client/source/openfeature.ts';
import { observe, type Host } from './evaluation.ts';

OpenFeature.setLogger({ error() {}, warn() {}, info() {}, debug() {} });

export const server: Host = {
  async provide(domain, options, isAwaited) {
    const provider = new StrataProvider(options);
    if (isAwaited) await OpenFeature.setProviderAndWait(domain, provider).catch(() => {});
    else OpenFeature.setProvider(domain, provider);
  },

  status: async (domain) => OpenFeature.getClient(domain).providerStatus,

  evaluate(question) {
    const { domain, type, key, fallback, context } = question;
    const client = OpenFeature.getClient(domain);
    return observe(question, async (hooks) => {
      switch (type) {
        case 'Boolean':
          return client.getBooleanDetails(key, fallback as boolean, context, { hooks });
        case 'String':
          return client.getStringDetails(key, fallback as string, context, { hooks });
        case 'Object':
          return client.getObjectDetails(key, fallback as JsonValue, context, { hooks });
        default:
          return client.getNumberDetails(key, fallback as number, context, { hooks });
      }
    });
  },

  nextChange: (domain) =>
    new Promise((done) => {
      OpenFeature.getClient(domain).addHandler(ProviderEvents.ConfigurationChanged, (event) =>
        done(event?.flagsChanged ?? []),
      );
    }),
};

export const closeServer = (): Promise<void> => OpenFeature.close();
