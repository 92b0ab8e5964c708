import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.mapreduce.v2.api.records.JobId;
import org.apache.hadoop.mapreduce.v2.api.records.TaskAttemptId;
import org.apache.hadoop.mapreduce.v2.api.records.TaskType;
import org.apache.hadoop.mapreduce.v2.app.AppContext;
import org.apache.hadoop.mapreduce.v2.app.rm.preemption.AMPreemptionPolicy;
import org.apache.hadoop.mapreduce.v2.util.MRBuilderUtils;
import org.apache.hadoop.yarn.api.protocolrecords.AllocateResponse;
import org.apache.hadoop.yarn.api.protocolrecords.impl.pb.AllocateResponsePBImpl;
import org.apache.hadoop.yarn.api.records.Container;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.api.records.NodeId;
import org.apache.hadoop.yarn.api.records.NodeReport;
import org.apache.hadoop.yarn.api.records.Priority;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.event.EventHandler;
import org.apache.hadoop.yarn.proto.YarnServiceProtos.AllocateResponseProto;

/** Prints what MapReduce's own classes read in an AllocateResponse (standard input); each container runs a reduce. */
public class MessageReader {
  private static JobId job;

  public static void main(String[] policies) throws Exception {
    AllocateResponse answer = new AllocateResponsePBImpl(AllocateResponseProto.parseFrom(System.in));
    for (NodeReport node : answer.getUpdatedNodes()) {
      System.out.println(node.getNodeId() + " " + node.getNodeState() + " " + node.getDecommissioningTimeout() + " "
          + node.getNodeUpdateType() + " unusable " + node.getNodeState().isUnusable());
    }
    for (String name : policies) {
      AMPreemptionPolicy policy = (AMPreemptionPolicy) Class.forName(name).getDeclaredConstructor().newInstance();
      List<String> events = new ArrayList<>();
      EventHandler<?> handler = event -> events.add(((org.apache.hadoop.yarn.event.Event<?>) event).getType().toString());
      policy.init((AppContext) Proxy.newProxyInstance(MessageReader.class.getClassLoader(),
          new Class<?>[] {AppContext.class}, (self, method, arguments) ->
              method.getName().equals("getEventHandler") ? handler : null));
      List<Long> preempted = new ArrayList<>();
      policy.preempt(new Running(answer), answer.getPreemptionMessage());
      for (long number = 1; number <= 4; number++) {
        if (policy.isPreempted(reduce(number))) {
          preempted.add(number);
        }
      }
      System.out.println(name.substring(name.lastIndexOf('.') + 1) + " preempts " + preempted + " events " + events);
    }
  }

  private static TaskAttemptId reduce(long number) {
    return MRBuilderUtils.newTaskAttemptId(MRBuilderUtils.newTaskId(job, (int) number, TaskType.REDUCE), 0);
  }

  /** Containers 1 to 4 of the attempt that the message is about. */
  private static class Running extends AMPreemptionPolicy.Context {
    private final ContainerId first;

    Running(AllocateResponse answer) {
      var message = answer.getPreemptionMessage();
      var named = message.getStrictContract() != null ? message.getStrictContract().getContainers()
          : message.getContract().getContainers();
      first = named.iterator().next().getId();
      job = MRBuilderUtils.newJobId(first.getApplicationAttemptId().getApplicationId(), 1);
    }

    @Override
    public TaskAttemptId getTaskAttempt(ContainerId container) {
      return reduce(container.getContainerId());
    }

    @Override
    public List<Container> getContainers(TaskType type) {
      List<Container> running = new ArrayList<>();
      for (long number = 1; number <= 4; number++) {
        running.add(Container.newInstance(ContainerId.newContainerId(first.getApplicationAttemptId(), number),
            NodeId.newInstance("host1", 8041), "host1:8042", Resource.newInstance(1024, 1), Priority.newInstance(10),
            null));
      }
      return running;
    }
  }
}
