"""What each collective means: which contribution lies where before and after, and what is known of it whatever the algorithm."""

from hemiola.collectives.collective import KINDS as KINDS
from hemiola.collectives.collective import MAX_CHUNKS as MAX_CHUNKS
from hemiola.collectives.collective import MAX_RANKS as MAX_RANKS
from hemiola.collectives.collective import Alias as Alias
from hemiola.collectives.collective import Buffer as Buffer
from hemiola.collectives.collective import Chunk as Chunk
from hemiola.collectives.collective import Collective as Collective
from hemiola.collectives.collective import Contribution as Contribution
from hemiola.collectives.collective import CustomMeaning as CustomMeaning
from hemiola.collectives.collective import Meaning as Meaning
from hemiola.collectives.constructors import AllGather as AllGather
from hemiola.collectives.constructors import AllReduce as AllReduce
from hemiola.collectives.constructors import AllToAll as AllToAll
from hemiola.collectives.constructors import AllToNext as AllToNext
from hemiola.collectives.constructors import Broadcast as Broadcast
from hemiola.collectives.constructors import Custom as Custom
from hemiola.collectives.constructors import Gather as Gather
from hemiola.collectives.constructors import Reduce as Reduce
from hemiola.collectives.constructors import ReduceScatter as ReduceScatter
from hemiola.collectives.constructors import Scatter as Scatter
from hemiola.collectives.constructors import SendRecv as SendRecv
from hemiola.collectives.kinds import FACTS as FACTS
from hemiola.collectives.kinds import CollectiveKind as CollectiveKind
from hemiola.collectives.kinds import KindFacts as KindFacts
from hemiola.collectives.kinds import parse_kind as parse_kind
